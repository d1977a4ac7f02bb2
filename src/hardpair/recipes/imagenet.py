"""Recipes for ImageNet: the published settings of each method at ResNet-50, our own for HNPM, and LARGE_ENCODERS.

``--data`` is the folder that holds train/ and val/. None has been run here: the scores are the published linear top-1.
Images are stored as centre squares of 320 px, and views of 224 px are cut from those. A crop of 8 % is then 91 px,
enlarged 2.5 times. Published crops are cut from the whole picture: there it has more pixels, and the quarter of a 4:3
picture that lies outside its centre square, which is never seen here, is seen too. The batches are the published ones
and need a device that holds them. Days are estimates of `hardpair plan`, not measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hardpair.recipes.demo import WORKING
from hardpair.recipes.recipe import Recipe, Setting


def _imagenet(method: str, settings: dict[str, Setting] | None = None, **fields: Any) -> Recipe:
    size = {"image_size": 320, "view_size": 0.7}  # views of 224 px
    fields = {"name": f"imagenet/{method}", **size, "small_images": False, "clip": 0.0, **fields}
    fields |= {"method": method, "data": "imagenet", "encoder": "resnet50"}
    return Recipe(settings=settings or {}, **fields)


def default(method: str) -> Recipe:
    """A method for which nobody has written a recipe: 100 epochs with Adam, the method's own defaults."""
    return _imagenet(method, batch_size=256, epochs=100, warmup_epochs=5.0, clip=1.0)


def hnpm() -> Recipe:
    """HNPM with the settings that work at small scale, at the paper's encoder, batch and epochs; not yet tried there.

    Nothing here is published. Loss, head and views are the demo's. Adam's rate follows the batch: .006 at 160 is what
    served ResNet-10 of width .25. Whether it, a run without warm-up, or the head's width suit ResNet-50 is not known:
    compare the first epochs with those of a smaller --learning-rate.

    Command:  hardpair pretrain imagenet/hnpm --data FOLDER
    Cost:     5.4 forwards per image, 100 epochs; an estimated 0.4 days on eight A100.
    Score:    not run here; nothing is published.
    """
    return _imagenet("hnpm", WORKING, batch_size=160, epochs=100, learning_rate=0.006, clip=1.0)


def hnpm_paper() -> Recipe:
    """HNPM to the letter of the paper.

    Command:  hardpair pretrain imagenet/hnpm-paper --data FOLDER
    Cost:     4 forwards per image, 100 epochs; an estimated 0.3 days on eight A100.
    Score:    not run here; published: 77.1 (paper); at small scale these settings hardly learn (docs/log.md).
    """
    fields: dict[str, Any] = {"batch_size": 160, "epochs": 100, "learning_rate": 0.1, "schedule": "paper", "clip": 1.0}
    return _imagenet("hnpm", name="imagenet/hnpm-paper", **fields)


def simclr() -> Recipe:
    """SimCLR, 1,000 epochs.

    Command:  hardpair pretrain imagenet/simclr --data FOLDER
    Cost:     6 forwards per image, 1,000 epochs; an estimated 4.1 days on eight A100, though the batch needs 16.
    Score:    not run here; published: 69.3 (paper).
    """
    return _imagenet(
        "simclr", **_lars(epochs=1000, learning_rate=4.8, weight_decay=1e-6, warmup_epochs=10.0), zero_init=True
    )


def simclrv2() -> Recipe:
    """SimCLRv2, 800 epochs, without selective kernels.

    Command:  hardpair pretrain imagenet/simclrv2 --data FOLDER
    Cost:     6 forwards per image, 800 epochs; an estimated 3.3 days on eight A100, though the batch needs 16.
    Score:    not run here; published: 71.7 (official code).
    """
    fields = _lars(epochs=800, learning_rate=6.4, weight_decay=1e-4, warmup_epochs=40.0)
    return _imagenet("simclrv2", **fields, zero_init=True)


def moco() -> Recipe:
    """MoCo v2, 200 epochs.

    Command:  hardpair pretrain imagenet/moco --data FOLDER
    Cost:     4 forwards per image, 200 epochs; an estimated 0.5 days on eight A100.
    Score:    not run here; published: 67.5 (official code).
    """
    return _imagenet("moco", {"splits": 8}, **_sgd(batch_size=256, epochs=200, learning_rate=0.03))


def moco_800() -> Recipe:
    """MoCo v2, 800 epochs: the row of the paper's Table 1.

    Command:  hardpair pretrain imagenet/moco-800 --data FOLDER
    Cost:     4 forwards per image, 800 epochs; an estimated 2.2 days on eight A100.
    Score:    not run here; published: 71.1 (official code).
    """
    return replace(moco(), name="imagenet/moco-800", epochs=800)


def byol() -> Recipe:
    """BYOL, 1,000 epochs.

    Command:  hardpair pretrain imagenet/byol --data FOLDER
    Cost:     8 forwards per image, 1,000 epochs; an estimated 5.5 days on eight A100, though the batch needs 16.
    Score:    not run here; published: 74.3 (paper).
    """
    return _imagenet("byol", **_lars(epochs=1000, learning_rate=3.2, weight_decay=1.5e-6, warmup_epochs=10.0))


def simsiam() -> Recipe:
    """SimSiam, 100 epochs.

    Command:  hardpair pretrain imagenet/simsiam --data FOLDER
    Cost:     6 forwards per image, 100 epochs; an estimated 0.4 days on eight A100.
    Score:    not run here; published: 68.1 (paper).
    """
    return _imagenet("simsiam", **_sgd(batch_size=512, epochs=100, learning_rate=0.1), zero_init=True)


def cmc() -> Recipe:
    """CMC, 200 epochs, two streams of half the width: the authors' later code (PyContrast).

    Command:  hardpair pretrain imagenet/cmc --data FOLDER
    Cost:     about 2 forwards per image, 200 epochs; an estimated 0.2 days on eight A100.
    Score:    not run here; published: 58.6 (the authors' later code).
    """
    settings: dict[str, Setting] = {"view": "cmc", "negatives": 65_536}
    return _imagenet("cmc", settings, **_sgd(batch_size=256, epochs=200, learning_rate=0.03), schedule="steps")


def cpc() -> Recipe:
    """CPC v2, 200 epochs, 7 x 7 patches of 64 px, cut from images of 256 px.

    Command:  hardpair pretrain imagenet/cpc --data FOLDER
    Cost:     about 12 forwards per image, 200 epochs; an estimated 1.8 days on eight A100.
    Score:    not run here; published: 63.8 (paper).
    """
    fields = {"image_size": 256, "view_size": 1.0, "batch_size": 512, "epochs": 200, "learning_rate": 4e-4}
    return _imagenet("cpc", {"patch": 64, "group": 16}, **fields)


def infomin() -> Recipe:
    """InfoMin, 200 epochs.

    Command:  hardpair pretrain imagenet/infomin --data FOLDER
    Cost:     about 6 forwards per image, 200 epochs; an estimated 0.9 days on eight A100.
    Score:    not run here; published: 70.1 (official code).
    """
    # Patches of 64 px, cut from views of 256 (published: 255).
    settings: dict[str, Setting] = {"jigsaw_size": 0.8, "splits": 8}
    return _imagenet("infomin", settings, **_sgd(batch_size=256, epochs=200, learning_rate=0.03))


def infomin_800() -> Recipe:
    """InfoMin, 800 epochs: the row of the paper's Table 1.

    Command:  hardpair pretrain imagenet/infomin-800 --data FOLDER
    Cost:     about 6 forwards per image, 800 epochs; an estimated 3.4 days on eight A100.
    Score:    not run here; published: 73.0 (official code).
    """
    return replace(infomin(), name="imagenet/infomin-800", epochs=800)


def instdisc() -> Recipe:
    """InstDisc, 200 epochs, as in PyContrast, the later code of CMC's authors: crops from 8 % of the image.

    Command:  hardpair pretrain imagenet/instdisc --data FOLDER
    Cost:     3 forwards per image, 200 epochs; an estimated 0.4 days on eight A100.
    Score:    not run here; published: 59.5 (PyContrast).
    """
    fields = _sgd(batch_size=256, epochs=200, learning_rate=0.03)
    return _imagenet("instdisc", {"view": "instdisc_wide"}, **fields, schedule="steps")


def supervised() -> Recipe:
    """The baseline that uses all labels, 90 epochs of crops and flips (that of BYOL's transfer: 1,000, SimCLR's views).

    Command:  hardpair pretrain imagenet/supervised --data FOLDER
    Cost:     3 forwards per image, 90 epochs; an estimated 0.2 days on eight A100.
    Score:    not run here; published: about 76.
    """
    return _imagenet("supervised", **_sgd(batch_size=256, epochs=90, learning_rate=0.1))


def _sgd(*, batch_size: int, epochs: int, learning_rate: float) -> dict[str, Any]:
    """All of these codes give SGD every parameter, so that biases and norms decay too."""
    fields = {"batch_size": batch_size, "epochs": epochs, "learning_rate": learning_rate}
    return {**fields, "optimiser": "sgd", "weight_decay": 1e-4, "decay_norms": True}


def _lars(**fields: Any) -> dict[str, Any]:
    return {**fields, "optimiser": "lars", "batch_size": 4096}


VARIANTS: dict[str, Callable[[], Recipe]] = {
    "hnpm-paper": hnpm_paper,
    "moco-800": moco_800,
    "infomin-800": infomin_800,
}
"""Recipes besides the one of each method."""


@dataclass(frozen=True)
class LargeEncoder:
    """A recipe of above with a deeper or wider ResNet: a row of the paper's Tables 1, 2 and 4."""

    base: str
    depth: int
    width: int
    sk: bool
    parameters: int  # of the encoder, millions
    days: float  # on eight A100 of 80 GB, by `hardpair plan`
    gpus: int  # how many of them hold the batch
    known: str  # of its score
    streams: int = 1  # if an encoder is two streams of half its width, the tables count the width of one

    @property
    def name(self) -> str:
        """As in imagenet/byol-200-2x."""
        return f"imagenet/{self.base}-{self.depth}-{self.width}x{'-sk' * self.sk}"

    def recipe(self) -> Recipe:
        """The recipe with this encoder."""
        base: Recipe = globals()[self.base.replace("-", "_")]()
        return replace(
            base, name=self.name, encoder=f"resnet{self.depth}", width=float(self.width * self.streams), sk=self.sk
        )

    def describe(self) -> str:
        """What it is, its command, its cost and its score; as the docstrings above."""
        kernels = " with selective kernels" * self.sk + " in each of two streams" * (self.streams > 1)
        batch = f", though the batch needs {self.gpus}" * (self.gpus > 8)
        return (
            f"As imagenet/{self.base}, with ResNet-{self.depth} of width {self.width}{kernels}.\n\n"
            f"Command:  hardpair pretrain {self.name} --data FOLDER\n"
            f"Cost:     {self.parameters} M parameters; an estimated {self.days} days on eight A100{batch}.\n"
            f"Score:    not run here; {self.known}."
        )


LARGE_ENCODERS = (
    LargeEncoder("hnpm-paper", 50, 2, False, 94, 1.1, 8, "published: 79.4 linear (the paper)"),
    LargeEncoder("hnpm-paper", 50, 4, False, 375, 4.3, 8, "published: 80.3 linear (the paper)"),
    LargeEncoder("hnpm-paper", 200, 2, False, 250, 4.0, 8, "published: 81.9 linear (the paper)"),
    LargeEncoder("hnpm-paper", 152, 3, True, 795, 10.6, 8, "published: 81.3 with 10 % of the labels (the paper)"),
    # CMC's rows had stronger augmentation and another length, which no command of its codes gives.
    LargeEncoder("cmc", 50, 1, False, 47, 0.8, 8, "Table 1 has 66.2 linear, with stronger augmentation", streams=2),
    LargeEncoder("cmc", 50, 2, False, 188, 3.2, 8, "Table 2 has 70.6 linear, with stronger augmentation", streams=2),
    LargeEncoder("simclr", 50, 2, False, 94, 16.2, 32, "published: 71.7 with 10 % of the labels"),
    LargeEncoder("simclr", 50, 4, False, 375, 64.4, 64, "published: 76.5 linear"),
    LargeEncoder("simclrv2", 50, 2, False, 94, 13.0, 32, "published: 75.6 linear"),
    LargeEncoder("simclrv2", 50, 2, True, 140, 19.9, 32, "published: 77.7 linear"),
    LargeEncoder("simclrv2", 152, 3, True, 795, 127.3, 128, "published: 79.8 linear"),
    LargeEncoder("byol", 50, 2, False, 94, 21.6, 32, "published: 77.4 linear"),
    LargeEncoder("byol", 50, 4, False, 375, 85.9, 64, "published: 78.6 linear"),
    LargeEncoder("byol", 200, 2, False, 250, 80.3, 64, "published: 79.6 linear"),
)
