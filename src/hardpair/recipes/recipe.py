"""What to run: one frozen dataclass, checked when it is made."""

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from hardpair.errors import UserError, nearest, require_range, shown
from hardpair.methods import METHODS

SUPERVISED = "supervised"
"""Not a method, since methods never see labels, but a recipe may name it: the baseline trained with labels."""

LEAST_VIEW = 8  # pixels

Setting = bool | int | float | str


@dataclass(frozen=True)
class Recipe:
    """A pretraining run. Two runs of equal recipes on one CPU give equal encoders.

    Args:
        name: what the recipe is called; also the default name of the run.
        method: which method learns; "supervised" is the baseline that uses the labels.
        data: "sample" (bundled photos), "cifar10", a part of them ("cifar10:10000"), a folder of images, packed
            by `hardpair pack` or not, or a list of files (.txt, a name per line).
        image_size: side in pixels to which images are resized once, before training.
        view_size: side of the views in training, as a share of image_size; smaller ones leave time for more epochs, or
            let small crops keep their detail. Patches (cpc's, infomin's jigsaw) are cut from views of full size.
        encoder: a ResNet, "resnet10" to "resnet200", or any timm model by its name, "vit_small_patch16_224" say.
        width: multiplies every channel count of a ResNet; fractions make small encoders.
        sk: selective kernels, for resnet50 and deeper.
        small_images: 3x3 stem of stride 1 without pooling, for images up to about 64 px.
        zero_init: the last batch norm of each residual branch starts at zero, as SimCLR and SimSiam have it.
        drop_path: stochastic depth of a timm encoder that has it.
        init: weights to start from instead of random ones: a run, an export, a file of tensors (safetensors, or a state
            dict of torchvision, timm, lightly, MoCo, DINO …), or timm:NAME for timm's pretrained ones.
        init_may_miss: tensors that init may lack, by how their names begin, with commas: "layer4,conv1".
        epochs: passes over the images.
        batch_size: images per step (global batch size).
        micro_batch: images that encoders see at a time, to fit a large batch into memory; 0 means all of them. The loss
            is still that of the whole batch, but batch norms of encoders see so many images by themselves.
        precision: arithmetic of encoders and heads; losses, statistics, averages and the optimiser stay in float32.
            "auto" takes bfloat16 where the hardware has it and a timed check finds it faster, and recipe.json says
            which it was.
        optimiser: adam, adamw, sgd (with momentum .9) or lars.
        learning_rate: its peak.
        weight_decay: not applied to biases and norms, unless decay_norms.
        decay_norms: apply weight decay to biases and norms too, as MoCo does; not with lars, which spares them.
        schedule: "cosine" falls to 0 over the run, step by step; "steps" divides by ten after 60 and 80 % of it;
            "paper" is a cosine of 100 epochs, by epoch.
        warmup_epochs: the learning rate rises linearly from 0 over these.
        clip: largest norm of the whole gradient; 0 turns clipping off.
        seed: of weights, order and views.
        settings: settings of the method, by name.
    """

    name: str
    method: str = "hnpm"
    data: str = "sample"
    image_size: int = 32
    view_size: float = 1.0
    encoder: str = "resnet18"
    width: float = 1.0
    sk: bool = False
    small_images: bool = True
    zero_init: bool = False
    drop_path: float = 0.0
    init: str = ""
    init_may_miss: str = ""
    epochs: int = 100
    batch_size: int = 160
    micro_batch: int = 0
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    optimiser: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    decay_norms: bool = False
    schedule: Literal["cosine", "steps", "paper"] = "cosine"
    warmup_epochs: float = 0.0
    clip: float = 1.0
    seed: int = 0
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _field_types():
            check_field(name, getattr(self, name))
        if self.warmup_epochs >= self.epochs:
            raise UserError(f"warmup_epochs: {self.warmup_epochs:g} must be less than epochs, {self.epochs}")
        if self.decay_norms and self.optimiser == "lars":
            raise UserError("decay_norms: lars never decays biases and norms; give --no-decay-norms or --optimiser sgd")
        kinds = {name: kind for name, (kind, _) in method_settings(self.method).items()}
        for name, value in self.settings.items():
            if name not in kinds:
                raise UserError(f"{shown(name)}: the method {self.method} has no such setting{nearest(name, kinds)}")
            _check_type(name, value, kinds[name])

    @property
    def view_pixels(self) -> int:
        """Side of the views."""
        return view_side(self.image_size, self.view_size)

    @property
    def tested_pixels(self) -> int:
        """Side at which evaluation shows images to the encoder."""
        return tested_side(self.image_size, self.view_size, small_images=self.small_images)

    def to_json(self) -> dict[str, Any]:
        """Every field, the method's settings complete with their defaults, and the hash."""
        known = method_settings(self.method)
        settings = {name: _as(kind, self.settings.get(name, default)) for name, (kind, default) in known.items()}
        fields = {name: _as(kind, getattr(self, name)) for name, kind in _field_types().items()}
        return {**fields, "settings": settings, "hash": _hash({**fields, "settings": settings})}

    @classmethod
    def from_json(cls, content: Any) -> "Recipe":
        """Read what `to_json` wrote; anything else is refused. Only plain values are taken, nothing is called."""
        if not isinstance(content, dict):
            raise UserError("recipe: not a JSON object")
        known = {f.name for f in dataclasses.fields(cls)}
        for name in content.keys() - {"hash"}:
            if name not in known:
                raise UserError(f"recipe: unknown field {shown(name)}{nearest(name, known)}")
        if "name" not in content or not isinstance(content.get("settings", {}), dict):
            raise UserError("recipe: needs a name, and settings must be a JSON object")
        return cls(**{name: value for name, value in content.items() if name in known})


def view_side(image_size: int, view_size: float) -> int:
    """Pixels of a view."""
    return max(LEAST_VIEW, round(view_size * image_size))


def tested_side(image_size: int, view_size: float, *, small_images: bool) -> int:
    """Pixels of the images that evaluation shows to an encoder.

    With the stem for small images it sees them whole, also where smaller views saved time in training. One for large
    images sees as many pixels as in training, where images are larger so that crops of them need not be enlarged.
    """
    return image_size if small_images else view_side(image_size, view_size)


def method_settings(method: str) -> dict[str, tuple[Any, Setting]]:
    """Name → (type, default) of a method's settings, read from its signature."""
    if method == SUPERVISED:
        return {}
    if method not in METHODS:
        hint = nearest(method, [*METHODS, SUPERVISED])
        raise UserError(f"method: there is no {shown(method)}{hint}; your own is --method path/to/file.py:CLASS")
    parameters = inspect.signature(METHODS[method].__init__, eval_str=True).parameters.values()
    return {p.name: (p.annotation, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}


def check_field(name: str, value: Any) -> None:
    """Refuse a value that a field of a recipe cannot have, whoever wrote it."""
    _check_type(name, value, _field_types()[name])
    if name in RANGES:
        require_range(name, value, *RANGES[name])


def _field_types() -> dict[str, Any]:
    return {f.name: f.type for f in dataclasses.fields(Recipe) if f.name != "settings"}


def _check_type(name: str, value: Any, kind: Any) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UserError(f"{name}: must be one of {', '.join(map(str, get_args(kind)))}, not {shown(value)}")
        return
    good = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not good or (isinstance(value, bool) and kind is not bool) or value != value:
        raise UserError(f"{name}: must be {_words(kind)}, not {shown(value)}")
    if isinstance(value, int) and abs(value) > MOST:
        raise UserError(f"{name}: {shown(value)} is too large; give at most {MOST}")


def _as(kind: Any, value: Setting) -> Setting:
    """A whole number given for a fraction becomes one, so that 1 and 1.0 are the same recipe."""
    return float(value) if kind is float else value


def _words(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]


MOST = 2**31 - 1  # of any whole number; what is larger overflows somewhere
RANGES: dict[str, tuple[float, float]] = {
    "image_size": (8, 1024),
    "view_size": (0.1, 1),
    "drop_path": (0, 0.9),
    "epochs": (1, 100_000),
    "batch_size": (2, 1_000_000),
    "micro_batch": (0, 1_000_000),
    "learning_rate": (0, 1000),
    "weight_decay": (0, 1),
    "warmup_epochs": (0, 100_000),
    "clip": (0, float("inf")),
    "seed": (0, MOST),
}


LATER = ("zero_init", "drop_path", "init", "init_may_miss", "micro_batch", "precision", "decay_norms")
LATER_SETTINGS = {
    **dict.fromkeys(("simclr", "simclrv2", "byol", "simsiam", "moco"), ("small_views", "small_size")),
    "infomin": ("splits",),
    "hnpm": ("nearest", "positive_in_sum", "share_weights"),
}
"""Fields, and settings by method, that did not always exist: at their defaults they do not count in a hash."""


def _hash(fields: Mapping[str, Any]) -> str:
    defaults = {f.name: f.default for f in dataclasses.fields(Recipe) if f.name in LATER}
    science = {n: value for n, value in fields.items() if n != "name" and (n not in LATER or value != defaults[n])}
    if later := LATER_SETTINGS.get(fields["method"]):
        known, settings = method_settings(fields["method"]), fields["settings"]
        science["settings"] = {n: v for n, v in settings.items() if n not in later or v != known[n][1]}
    return hashlib.sha256(json.dumps(science, sort_keys=True).encode()).hexdigest()[:16]
