"""Recipes for ImageNet with the published settings of each method: a function each for ResNet-50, then LARGE_ENCODERS.

``--data`` is the folder that holds train/ and val/. None has been run here: the scores are the published linear top-1,
with crops cut from images of full size; here they are cut from a square of image_size. The batches are the published
ones and need a device that holds them. Days are estimates of `hardpair plan`, not measurements.
"""

from dataclasses import dataclass, replace
from typing import Any

from hardpair.recipes.recipe import Recipe, Setting


def _imagenet(method: str, settings: dict[str, Setting] | None = None, **fields: Any) -> Recipe:
    fields = {"image_size": 224, "small_images": False, "clip": 0.0, **fields}
    fields |= {"name": f"imagenet/{method}", "method": method, "data": "imagenet", "encoder": "resnet50"}
    return Recipe(settings=settings or {}, **fields)


def default(method: str) -> Recipe:
    """A method for which nobody has written a recipe: 100 epochs with Adam, the method's own defaults."""
    return _imagenet(method, batch_size=256, epochs=100, warmup_epochs=5.0, clip=1.0)


def hnpm() -> Recipe:
    """HNPM to the letter of the paper.

    Command:  hardpair pretrain imagenet/hnpm --data FOLDER
    Cost:     4 forwards per image, 100 epochs; an estimated 0.3 days on eight A100.
    Score:    not run here; published: 77.1 (paper); at small scale these settings hardly learn (docs/log.md).
    """
    return _imagenet("hnpm", batch_size=160, epochs=100, learning_rate=0.1, schedule="paper", clip=1.0)


def simclr() -> Recipe:
    """SimCLR, 1,000 epochs.

    Command:  hardpair pretrain imagenet/simclr --data FOLDER
    Cost:     6 forwards per image, 1,000 epochs; an estimated 4.1 days on eight A100, though the batch needs 16.
    Score:    not run here; published: 69.3 (paper).
    """
    return _imagenet("simclr", **_lars(epochs=1000, learning_rate=4.8, weight_decay=1e-6, warmup_epochs=10.0))


def simclrv2() -> Recipe:
    """SimCLRv2, 800 epochs, without selective kernels.

    Command:  hardpair pretrain imagenet/simclrv2 --data FOLDER
    Cost:     6 forwards per image, 800 epochs; an estimated 3.3 days on eight A100, though the batch needs 16.
    Score:    not run here; published: 71.7 (official code).
    """
    return _imagenet("simclrv2", **_lars(epochs=800, learning_rate=6.4, weight_decay=1e-4, warmup_epochs=40.0))


def moco() -> Recipe:
    """MoCo v2, 200 epochs.

    Command:  hardpair pretrain imagenet/moco --data FOLDER
    Cost:     4 forwards per image, 200 epochs; an estimated 0.5 days on eight A100.
    Score:    not run here; published: 67.5 (official code).
    """
    return _imagenet("moco", {"splits": 8}, **_sgd(batch_size=256, epochs=200, learning_rate=0.03))


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
    return _imagenet("simsiam", **_sgd(batch_size=512, epochs=100, learning_rate=0.1))


def cmc() -> Recipe:
    """CMC, 240 epochs, two streams of half the width.

    Command:  hardpair pretrain imagenet/cmc --data FOLDER
    Cost:     about 2 forwards per image, 240 epochs; an estimated 0.2 days on eight A100.
    Score:    not run here; published: 58.6 (the authors' later code, 200 epochs, more negatives).
    """
    return _imagenet("cmc", **_sgd(batch_size=128, epochs=240, learning_rate=0.03), schedule="steps")


def cpc() -> Recipe:
    """CPC v2, 200 epochs, 7 x 7 patches of 64 px.

    Command:  hardpair pretrain imagenet/cpc --data FOLDER
    Cost:     about 12 forwards per image, 200 epochs; an estimated 1.8 days on eight A100.
    Score:    not run here; published: 63.8 (paper).
    """
    fields = {"image_size": 256, "batch_size": 512, "epochs": 200, "learning_rate": 4e-4}
    return _imagenet("cpc", {"patch": 64, "group": 16}, **fields)


def infomin() -> Recipe:
    """InfoMin, 200 epochs.

    Command:  hardpair pretrain imagenet/infomin --data FOLDER
    Cost:     about 6 forwards per image, 200 epochs; an estimated 0.8 days on eight A100.
    Score:    not run here; published: 70.1 (official code).
    """
    return _imagenet("infomin", **_sgd(batch_size=256, epochs=200, learning_rate=0.03))


def instdisc() -> Recipe:
    """InstDisc, 200 epochs.

    Command:  hardpair pretrain imagenet/instdisc --data FOLDER
    Cost:     3 forwards per image, 200 epochs; an estimated 0.4 days on eight A100.
    Score:    not run here; published: 58.5 (the authors' later code).
    """
    return _imagenet("instdisc", **_sgd(batch_size=256, epochs=200, learning_rate=0.03), schedule="steps")


def supervised() -> Recipe:
    """The baseline that uses all labels, 90 epochs.

    Command:  hardpair pretrain imagenet/supervised --data FOLDER
    Cost:     3 forwards per image, 90 epochs; an estimated 0.2 days on eight A100.
    Score:    not run here; published: about 76.
    """
    return _imagenet("supervised", **_sgd(batch_size=256, epochs=90, learning_rate=0.1))


def _sgd(*, batch_size: int, epochs: int, learning_rate: float) -> dict[str, Any]:
    fields = {"batch_size": batch_size, "epochs": epochs, "learning_rate": learning_rate}
    return {**fields, "optimiser": "sgd", "weight_decay": 1e-4}


def _lars(**fields: Any) -> dict[str, Any]:
    return {**fields, "optimiser": "lars", "batch_size": 4096}


@dataclass(frozen=True)
class LargeEncoder:
    """A recipe of above with a deeper or wider ResNet: a row of the paper's Tables 2 and 4."""

    method: str
    depth: int
    width: int
    sk: bool
    parameters: int  # of the encoder, millions
    days: float  # on eight A100 of 80 GB, by `hardpair plan`
    gpus: int  # how many of them hold the batch
    published: str
    streams: int = 1  # if an encoder is two streams of half its width, the tables count the width of one

    @property
    def name(self) -> str:
        """As in imagenet/byol-200-2x."""
        return f"imagenet/{self.method}-{self.depth}-{self.width}x{'-sk' * self.sk}"

    def recipe(self) -> Recipe:
        """The method's recipe with this encoder."""
        base: Recipe = globals()[self.method]()
        return replace(
            base, name=self.name, encoder=f"resnet{self.depth}", width=float(self.width * self.streams), sk=self.sk
        )

    def describe(self) -> str:
        """What it is, its command, its cost and its score; as the docstrings above."""
        kernels = " with selective kernels" * self.sk
        batch = f", though the batch needs {self.gpus}" * (self.gpus > 8)
        return (
            f"As imagenet/{self.method}, with ResNet-{self.depth} of width {self.width}{kernels}.\n\n"
            f"Command:  hardpair pretrain {self.name} --data FOLDER\n"
            f"Cost:     {self.parameters} M parameters; an estimated {self.days} days on eight A100{batch}.\n"
            f"Score:    not run here; published: {self.published}."
        )


LARGE_ENCODERS = (
    LargeEncoder("hnpm", 50, 2, False, 94, 1.1, 8, "79.4 linear (the paper)"),
    LargeEncoder("hnpm", 50, 4, False, 375, 4.3, 8, "80.3 linear (the paper)"),
    LargeEncoder("hnpm", 200, 2, False, 250, 4.0, 8, "81.9 linear (the paper)"),
    LargeEncoder("hnpm", 152, 3, True, 795, 10.6, 8, "81.3 with 10 % of the labels (the paper)"),
    LargeEncoder("cmc", 50, 2, False, 188, 3.9, 8, "70.6 linear, with stronger augmentation", streams=2),
    LargeEncoder("simclr", 50, 2, False, 94, 16.2, 32, "71.7 with 10 % of the labels"),
    LargeEncoder("simclr", 50, 4, False, 375, 64.4, 64, "76.5 linear"),
    LargeEncoder("simclrv2", 50, 2, False, 94, 13.0, 32, "75.6 linear"),
    LargeEncoder("simclrv2", 50, 2, True, 140, 19.9, 32, "77.7 linear"),
    LargeEncoder("simclrv2", 152, 3, True, 795, 127.3, 128, "79.8 linear"),
    LargeEncoder("byol", 50, 2, False, 94, 21.6, 32, "77.4 linear"),
    LargeEncoder("byol", 50, 4, False, 375, 85.9, 64, "78.6 linear"),
    LargeEncoder("byol", 200, 2, False, 250, 80.3, 64, "79.6 linear"),
)
