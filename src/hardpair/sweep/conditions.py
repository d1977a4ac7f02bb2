"""Options that all sweeps share; light, so that help answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardpair.errors import require_range


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What all runs of a sweep have in common.

    Args:
        data: "sample" (bundled photos), "cifar10", a part of them ("cifar10:10000"), or a folder of labelled images;
            where this or one of the next seven is not given, the recipe decides.
        encoder: depth of the ResNet, "resnet10" to "resnet200".
        width: multiplies every channel count.
        sk: selective kernels, in bottlenecks.
        image_size: side in pixels to which images are resized once, before training.
        view_size: side of the views in training, as a share of image_size.
        small_images: 3x3 stem of stride 1 without pooling, for images up to about 64 px.
        batch_size: images per step.
        seeds: runs of each method or variant, with the seeds 0, 1, 2 …
        on: "test", or "validation": a fifth of the training images, for every choice you make.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    data: str | None = None
    encoder: str | None = None
    width: float | None = None
    sk: bool | None = None
    image_size: int | None = None
    view_size: float | None = None
    small_images: bool | None = None
    batch_size: int | None = None
    seeds: int = 3
    on: Literal["test", "validation"] = "test"
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0

    def __post_init__(self) -> None:
        require_range("seeds", self.seeds, 1, 1000)


SHARED = ("data", "encoder", "width", "sk", "image_size", "view_size", "small_images")
"""What all methods of a comparison have in common, whatever is given. A batch size they share only if one is given:
large batches suit some methods, small ones others."""
