"""Small methods and images for tests."""

import torch
from torch import Tensor

from hardpair import METHODS, build_encoder
from hardpair.methods import Method
from hardpair.models import Encoder
from hardpair.views import Draw

SMALL: dict[str, dict[str, object]] = {
    "moco": {"queue": 64},
    "byol": {"head_hidden": 64, "head_outputs": 32},
    "simsiam": {"head_outputs": 64, "predictor_hidden": 16},
    "cmc": {"negatives": 0},
    "cpc": {"patch": 4, "context_hidden": 16},
    "infomin": {"queue": 64},
    "instdisc": {"negatives": 0},
}
"""Settings that make a method small enough for 32 images; all else is its default."""


def build(name: str, **settings: object) -> Method:
    torch.manual_seed(0)
    return around(build_encoder("resnet10", width=1 / 8, small_images=True), name, size_for(name), **settings)


def around(encoder: Encoder, name: str, size: int, **settings: object) -> Method:
    method = METHODS[name](encoder, **{**SMALL.get(name, {}), **settings})
    method.prepare(photos(size=size))
    return method


def size_for(name: str) -> int:
    return 32 if name == "infomin" else 16  # a jigsaw's patches are a quarter of the image


def photos(count: int = 32, size: int = 16) -> Tensor:
    """Smooth coloured blobs: different images that augmentation does not destroy."""
    torch.manual_seed(1)
    small = torch.rand(count, 3, 4, 4)
    return (torch.nn.functional.interpolate(small, size=size, mode="bilinear") * 255).to(torch.uint8)


def draw(step: int, count: int = 32) -> Draw:
    return Draw(0, step, torch.arange(count), rows=torch.arange(count))


def views(method: Method, step: int = 0) -> list[Tensor]:
    name = next(name for name, kind in METHODS.items() if kind is type(method))
    return method.views(photos(size=size_for(name)), draw(step))


def one_loss(method: Method, step: int = 0) -> Tensor:
    return method(views(method, step))["loss"]
