"""Named augmentation policies: how much of each operation."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Policy:
    """How much of each operation. Shares are of images: 0 never, 1 always."""

    crop: tuple[float, float]  # area of the crop, as a share of the image
    flip: float = 0.5  # share mirrored
    jitter: float = 0.8  # share whose colours are jittered, by the next four
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    grey: float = 0.2  # share turned grey
    blur: float = 0.0  # share blurred
    blur_kernel: int = 0  # pixels; 0 is a tenth of the image, as usual at 224 px
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    solarise: float = 0.0  # share solarised
    randaugment: bool = False
    crop_first: bool = True  # as everybody does; off, colours come first, as in the HNPM paper

    def blur_width(self, size: int) -> int:
        """Pixels that a blur of an image of ``size`` pixels looks at."""
        return self.blur_kernel or max(3, size // 20 * 2 + 1)


PAPER = Policy(
    crop=(0.8, 1.0),
    brightness=0.8,
    contrast=0.8,
    saturation=0.8,
    hue=0.2,
    blur=0.1,
    blur_kernel=3,
    blur_sigma=(1.5, 1.5),
    crop_first=False,
)
CIFAR = Policy(crop=(0.08, 1.0))
SIMCLR = Policy(crop=(0.08, 1.0), brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, blur=0.5)
BYOL = Policy(crop=(0.08, 1.0), saturation=0.2)
INSTDISC = Policy(crop=(0.2, 1.0), jitter=1.0, hue=0.4)

PolicyName = Literal[
    "paper",
    "strong",
    "balanced",
    "crop",
    "cifar",
    "simclr",
    "moco",
    "byol_first",
    "byol_second",
    "byol_cifar_first",
    "byol_cifar_second",
    "instdisc",
    "instdisc_wide",
    "instdisc_cifar",
    "cmc",
    "infomin",
    "jigsaw",
    "cpc",
]

POLICIES: dict[str, Policy] = {
    # HNPM, and two that work better on small images: the paper's colours with crops from a fifth of the image (its
    # own [.8, 1] hardly moves anything), and the same crops with half the jitter (docs/log.md).
    "paper": PAPER,
    "strong": replace(PAPER, crop=(0.2, 1.0)),
    "balanced": replace(PAPER, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, crop=(0.2, 1.0)),
    # Crop and flip alone: labelled training, CMC in its first code.
    "crop": Policy(crop=(0.08, 1.0), jitter=0.0, grey=0.0),
    # SimCLR's and MoCo's CIFAR-10 policy are the same: half the jitter, no blur.
    "cifar": CIFAR,
    "simclr": SIMCLR,
    # MoCo v2 and SimSiam on ImageNet.
    "moco": Policy(crop=(0.2, 1.0), blur=0.5),
    # BYOL's two views differ: one always blurred, the other seldom, but solarised at times.
    "byol_first": replace(BYOL, blur=1.0),
    "byol_second": replace(BYOL, blur=0.1, solarise=0.2),
    "byol_cifar_first": BYOL,
    "byol_cifar_second": replace(BYOL, solarise=0.2),
    "instdisc": INSTDISC,
    # InstDisc and CMC in PyContrast, the later code of CMC's authors.
    "instdisc_wide": replace(INSTDISC, crop=(0.08, 1.0)),
    "cmc": Policy(crop=(0.08, 1.0), jitter=1.0, grey=0.0),
    "instdisc_cifar": replace(INSTDISC, flip=0.0),
    "infomin": replace(SIMCLR, crop=(0.2, 1.0), randaugment=True),
    "jigsaw": Policy(crop=(0.6, 1.0), jitter=0.0, grey=0.0),
    # In place of the published translation by 4 of 32 px, a crop that moves the image about as far.
    "cpc": Policy(crop=(0.6, 1.0), hue=0.2, grey=0.25),
}
