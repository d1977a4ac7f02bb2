"""What all forms of an export are made of, and what each must say of itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import save_file
from torch import Tensor, nn

from hardpair.data.images import CENTRE, larger_square
from hardpair.embeddings.embedder import Embedder
from hardpair.embeddings.head import LinearHead
from hardpair.errors import UserError
from hardpair.models import DEPTHS, Encoder
from hardpair.models.exported import WEIGHTS
from hardpair.pixels import MEAN, STD

Takes = Literal["normalised", "pixels"]  # float images as the encoder wants them, or uint8


@dataclass(frozen=True)
class Material:
    """An encoder, how it sees pictures, and a head if there is one."""

    embedder: Embedder
    head: LinearHead | None = None

    @property
    def encoder(self) -> Encoder:
        """In eval mode, on the CPU."""
        return self.embedder.encoder

    @property
    def trunk(self) -> nn.Module:
        """The network itself, which wants images normalised by its own mean and deviation."""
        return self.encoder.trunk

    @property
    def settings(self) -> dict[str, Any]:
        """Of `build_encoder`."""
        return self.encoder.settings

    @property
    def size(self) -> int:
        """Pixels a side of the images that it sees."""
        return self.embedder.shown

    @property
    def crop(self) -> float:
        """Share of the side of a square that it sees."""
        return 1.0 if self.embedder.square < larger_square(self.size) else CENTRE

    @property
    def mean(self) -> list[float]:
        """Of the images that its weights know."""
        return list(self.settings.get("mean", MEAN))

    @property
    def std(self) -> list[float]:
        """Of the images that its weights know."""
        return list(self.settings.get("std", STD))

    @property
    def classes(self) -> tuple[str, ...]:
        """Of the head."""
        return self.head.classes if self.head else ()

    @property
    def outputs(self) -> int:
        """How many numbers come out for an image."""
        return len(self.classes) or self.encoder.num_features

    def head_tensors(self, name: str) -> dict[str, Tensor]:
        """Weight and bias of the last layer, by which a softmax gives calibrated probabilities; nothing without one."""
        if self.head is None:
            return {}
        scale = self.head.temperature
        return {f"{name}.weight": self.head.weight / scale, f"{name}.bias": self.head.bias / scale}


@dataclass(frozen=True)
class Made:
    """What a form wrote, and how it is to be read."""

    config: Mapping[str, Any]  # of config.json, for those who read this form
    lines: tuple[str, str, str]  # of Python: FOLDER is where it lies, and after them there is `model`
    takes: Takes
    files: tuple[str, ...] = ()  # besides config.json, README.md and the weights
    prefix: str = ""  # what our encoder has before the names of the weights
    head: tuple[str, ...] = ()  # names of the weights of the head
    library: str = "pytorch"  # as the Hugging Face hub calls it


def loading_from(folder: str, lines: Sequence[str]) -> tuple[str, ...]:
    """The lines for an export that lies there, whatever its name."""
    inside = "".join(
        "\\" + char if char in '"\\' else char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in folder
    )
    return tuple(line.replace("FOLDER", inside) for line in lines)


def write_weights(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """The one file of weights."""
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)


def plain_resnet(settings: Mapping[str, Any]) -> bool:
    """Whether timm and torchvision have this ResNet: width 1, their stem, nothing of a method's own."""
    own = ("sk", "small_images", "colour_streams", "patch")
    return settings["name"] in DEPTHS and settings.get("width", 1) == 1 and not any(settings.get(key) for key in own)


def no_such_form(form: str, material: Material, forms: str) -> UserError:
    """One line: why not, and what does work."""
    return UserError(f"to: {form} has no {described(material.settings)}; give --to {forms}")


def described(settings: Mapping[str, Any]) -> str:
    """A ResNet-10 with what sets it apart, in words."""
    width, patch = settings.get("width", 1), settings.get("patch")
    words = {
        f"of width {width:g}": width != 1,
        "with selective kernels": settings.get("sk"),
        "with the stem for small images": settings.get("small_images"),
        "in two colour streams": settings.get("colour_streams"),
        f"on patches of {patch} px": patch,
    }
    return " ".join([settings["name"], *(word for word, is_so in words.items() if is_so)])
