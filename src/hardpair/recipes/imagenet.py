"""Recipes for ImageNet with ResNet-50 and the published settings of each method, one function each.

``--data`` is the folder that holds train/ and val/. None has been run here: the scores are the published linear top-1,
with crops cut from images of full size; here they are cut from a square of image_size. The batches are the published
ones and need a device that holds them.
"""

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
    Cost:     4 forwards per image, 100 epochs.
    Expected: 77.1 in the paper; at small scale these settings hardly learn (docs/log.md).
    """
    return _imagenet("hnpm", batch_size=160, epochs=100, learning_rate=0.1, schedule="paper", clip=1.0)


def simclr() -> Recipe:
    """SimCLR, 1,000 epochs.

    Command:  hardpair pretrain imagenet/simclr --data FOLDER
    Cost:     6 forwards per image, 1,000 epochs, batch 4,096.
    Expected: 69.3 (paper).
    """
    return _imagenet("simclr", **_lars(epochs=1000, learning_rate=4.8, weight_decay=1e-6, warmup_epochs=10.0))


def simclrv2() -> Recipe:
    """SimCLRv2, 800 epochs, without selective kernels.

    Command:  hardpair pretrain imagenet/simclrv2 --data FOLDER
    Cost:     6 forwards per image, 800 epochs, batch 4,096.
    Expected: 71.7 (official code).
    """
    return _imagenet("simclrv2", **_lars(epochs=800, learning_rate=6.4, weight_decay=1e-4, warmup_epochs=40.0))


def moco() -> Recipe:
    """MoCo v2, 200 epochs.

    Command:  hardpair pretrain imagenet/moco --data FOLDER
    Cost:     4 forwards per image, 200 epochs.
    Expected: 67.5 (official code).
    """
    return _imagenet("moco", {"splits": 8}, **_sgd(batch_size=256, epochs=200, learning_rate=0.03))


def byol() -> Recipe:
    """BYOL, 1,000 epochs.

    Command:  hardpair pretrain imagenet/byol --data FOLDER
    Cost:     8 forwards per image, 1,000 epochs, batch 4,096.
    Expected: 74.3 (paper).
    """
    return _imagenet("byol", **_lars(epochs=1000, learning_rate=3.2, weight_decay=1.5e-6, warmup_epochs=10.0))


def simsiam() -> Recipe:
    """SimSiam, 100 epochs.

    Command:  hardpair pretrain imagenet/simsiam --data FOLDER
    Cost:     6 forwards per image, 100 epochs.
    Expected: 68.1 (paper).
    """
    return _imagenet("simsiam", **_sgd(batch_size=512, epochs=100, learning_rate=0.1))


def cmc() -> Recipe:
    """CMC, 240 epochs, two streams of half the width.

    Command:  hardpair pretrain imagenet/cmc --data FOLDER
    Cost:     about 2 forwards per image, 240 epochs.
    Expected: 58.6 (the authors' later code, 200 epochs, more negatives).
    """
    return _imagenet("cmc", **_sgd(batch_size=128, epochs=240, learning_rate=0.03), schedule="steps")


def cpc() -> Recipe:
    """CPC v2, 200 epochs, 7 x 7 patches of 64 px.

    Command:  hardpair pretrain imagenet/cpc --data FOLDER
    Cost:     about 12 forwards per image, 200 epochs.
    Expected: 63.8 (paper).
    """
    fields = {"image_size": 256, "batch_size": 512, "epochs": 200, "learning_rate": 4e-4}
    return _imagenet("cpc", {"patch": 64, "group": 16}, **fields)


def infomin() -> Recipe:
    """InfoMin, 200 epochs.

    Command:  hardpair pretrain imagenet/infomin --data FOLDER
    Cost:     about 6 forwards per image, 200 epochs.
    Expected: 70.1 (official code).
    """
    return _imagenet("infomin", **_sgd(batch_size=256, epochs=200, learning_rate=0.03))


def instdisc() -> Recipe:
    """InstDisc, 200 epochs.

    Command:  hardpair pretrain imagenet/instdisc --data FOLDER
    Cost:     3 forwards per image, 200 epochs.
    Expected: 58.5 (the authors' later code).
    """
    return _imagenet("instdisc", **_sgd(batch_size=256, epochs=200, learning_rate=0.03), schedule="steps")


def supervised() -> Recipe:
    """The baseline that uses all labels, 90 epochs.

    Command:  hardpair pretrain imagenet/supervised --data FOLDER
    Cost:     3 forwards per image, 90 epochs.
    Expected: about 76 in the literature.
    """
    return _imagenet("supervised", **_sgd(batch_size=256, epochs=90, learning_rate=0.1))


def _sgd(*, batch_size: int, epochs: int, learning_rate: float) -> dict[str, Any]:
    fields = {"batch_size": batch_size, "epochs": epochs, "learning_rate": learning_rate}
    return {**fields, "optimiser": "sgd", "weight_decay": 1e-4}


def _lars(**fields: Any) -> dict[str, Any]:
    return {**fields, "optimiser": "lars", "batch_size": 4096}
