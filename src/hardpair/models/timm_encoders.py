"""Any timm model as an encoder, by its name there: built without a head, dropout or stochastic depth."""

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from hardpair.errors import UserError, near, shown

LARGEST = 1024  # pixels a side that are tried, to say which sizes a model takes


def require_name(name: str) -> None:
    """Refuse what timm does not have; a name never leads to a download or to a file, nor does a tag to weights."""
    import timm  # here, since it takes two seconds

    if not timm.is_model(name) or any(mark in name for mark in ":/."):
        hint = (
            near(name.partition(".")[0], timm.list_models())
            or "; give resnet10 to resnet200, or a name that timm.list_models() has"
        )
        raise UserError(f"encoder: there is no {shown(name)}{hint}")


def published_size(name: str) -> int:
    """Side of the images that timm's default weights of the model were trained with."""
    require_name(name)
    import timm

    config = timm.get_pretrained_cfg(name)
    return int(config.input_size[-1]) if config is not None else 224


def timm_trunk(name: str, *, image_size: int, drop_path: float = 0.0) -> Any:
    """The model for images of that size: timm fits position embeddings and windows to it, where a model has any."""
    require_name(name)
    import timm

    rate: dict[str, Any] = {"drop_path_rate": drop_path} if drop_path else {}
    for size in _size_choices(image_size):
        try:
            with warnings.catch_warnings():  # timm's, of its own older names
                warnings.simplefilter("ignore")
                trunk: Any = timm.create_model(name, pretrained=False, num_classes=0, **size, **rate)
            break
        except TypeError as error:
            if drop_path and "drop_path_rate" in str(error):
                raise UserError(f"drop_path: {name} has no stochastic depth; leave it out") from error
            if not size:
                raise
        except Exception as error:  # windows that do not fit, for example
            reason = " ".join(str(error).split())[:120]
            raise UserError(f"encoder: {name} cannot be built for views of {image_size} px ({reason})") from error
    _without_dropout(trunk)
    _require_paths(name, trunk, drop_path)
    return trunk


def size_arguments(name: str, image_size: int) -> dict[str, Any]:
    """What tells timm the size of the images, where the model wants to know it."""
    import timm

    for size in _size_choices(image_size):
        try:
            with torch.device("meta"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                timm.create_model(name, pretrained=False, num_classes=0, **size)
            return size
        except TypeError:
            if not size:
                raise
    return {}


def _size_choices(image_size: int) -> list[dict[str, Any]]:
    """Models differ in which of these they know."""
    return [{"img_size": image_size, "dynamic_img_size": True}, {"img_size": image_size}, {}]


def _without_dropout(trunk: nn.Module) -> None:
    for module in trunk.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


def _require_paths(name: str, trunk: nn.Module, drop_path: float) -> None:
    """Stochastic depth where it is wanted, and nowhere else: some models have it without being asked."""
    from timm.layers.drop import DropPath

    paths = [module for module in trunk.modules() if isinstance(module, DropPath)]
    if drop_path and not any(module.drop_prob for module in paths):  # models may take the rate and not use it
        raise UserError(f"drop_path: {name} has no stochastic depth; leave it out")
    for module in paths:
        module.drop_prob = module.drop_prob if drop_path else 0.0


def num_features(trunk: Any) -> int:
    """Width of its output, which some models' last layer makes wider than their last stage."""
    return int(getattr(trunk, "head_hidden_size", None) or trunk.num_features)


def patch_side(trunk: Any) -> int:
    """Views are cut into patches of so many pixels; 1 for convolutional models."""
    side = getattr(getattr(trunk, "patch_embed", None), "patch_size", 1)
    return int(side[0] if isinstance(side, Sequence) else side)


def require_view_sizes(name: str, image_size: int, sizes: set[int], *, note: str = "") -> None:
    """Refuse views that a timm model built for ``image_size`` cannot take, and say which it can."""
    for size in sorted(sizes, reverse=True):
        if _takes(name, image_size, size):
            continue
        near = _working(name, image_size, size)
        only = " and ".join(f"{side} px" for side in near) if near else f"none of up to {LARGEST} px"
        raise UserError(f"image_size: {name} cannot take views of {size} px; sizes near it that work: {only}{note}")


def _working(name: str, image_size: int, size: int) -> list[int]:
    """The nearest smaller and larger size that work; a view as large as what the model is built for is one of them."""
    step = patch_side(_on_meta(name, image_size))
    step = step if step > 1 else 8

    def works(side: int) -> bool:
        return _takes(name, side if size == image_size else image_size, side)

    below = next((side for side in range(size // step * step, step - 1, -step) if works(side)), None)
    above = next((side for side in range((size // step + 1) * step, LARGEST + 1, step) if works(side)), None)
    return [side for side in (below, above) if side is not None]


@functools.cache
def _takes(name: str, image_size: int, size: int) -> bool:
    """Whether it makes features of views of that size; on torch's meta device, where only shapes are computed."""
    try:
        trunk = _on_meta(name, image_size)
        with torch.no_grad():
            outputs = trunk(torch.empty(2, 3, size, size, device="meta"))
    except Exception:
        return False
    return bool(outputs.shape == (2, num_features(trunk)))


@functools.lru_cache(maxsize=4)
def _on_meta(name: str, image_size: int) -> Any:
    with torch.device("meta"):
        return timm_trunk(name, image_size=image_size).eval()
