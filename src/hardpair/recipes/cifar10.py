"""Recipes for CIFAR-10 with the published settings of each method, one function each.

All are made for a GPU and none has been run here in full: scores are published ones, of the source named.
"""

from typing import Any

from hardpair.recipes.demo import WORKING
from hardpair.recipes.recipe import Recipe, Setting


def _cifar10(method: str, settings: dict[str, Setting], **fields: Any) -> Recipe:
    fields = {"data": "cifar10", "encoder": "resnet18", "clip": 0.0, **fields}
    return Recipe(name=f"cifar10/{method}", method=method, settings=settings, **fields)


def default(method: str) -> Recipe:
    """A method for which nobody has written a recipe: HNPM's conditions, the method's own defaults."""
    return _cifar10(method, {}, epochs=200, clip=1.0)


def hnpm() -> Recipe:
    """HNPM with the settings that work at small scale (docs/explanation/method.md); nothing is published for CIFAR-10.

    Command:  hardpair pretrain cifar10/hnpm
    Cost:     5.5 forwards per image, 200 epochs.
    Score:    not run here; nothing is published.
    """
    return _cifar10("hnpm", WORKING, epochs=200, clip=1.0)


def simclr() -> Recipe:
    """SimCLR, the official CIFAR-10 settings: those of the code's README, with weight decay 1e-4 (the paper's: 1e-6).

    Command:  hardpair pretrain cifar10/simclr
    Cost:     6 forwards per image, 1,000 epochs.
    Score:    not run here; published: linear about 91 % (README of the official code).
    """
    return _cifar10("simclr", {"view": "cifar", "temperature": 0.5}, **_SIMCLR)


def simclrv2() -> Recipe:
    """SimCLRv2: nothing is published for CIFAR-10, so SimCLR's settings with the deeper head.

    Command:  hardpair pretrain cifar10/simclrv2
    Cost:     6 forwards per image, 1,000 epochs.
    Score:    not run here; nothing is published.
    """
    return _cifar10("simclrv2", {"view": "cifar", "temperature": 0.5}, **_SIMCLR)


_SIMCLR: dict[str, Any] = {
    "batch_size": 512,
    "epochs": 1000,
    "optimiser": "lars",
    "learning_rate": 2.0,  # 1.0 · batch / 256
    "weight_decay": 1e-4,
    "warmup_epochs": 10.0,
    "zero_init": True,  # as in the official code
}


def moco() -> Recipe:
    """MoCo, the official CIFAR-10 demo, with version 2's head.

    Command:  hardpair pretrain cifar10/moco
    Cost:     4 forwards per image, 800 epochs.
    Score:    not run here; published: kNN 88.7 % (official demo, without the head's hidden layer).
    """
    settings: dict[str, Setting] = {"view": "cifar", "temperature": 0.1, "queue": 4096, "momentum": 0.99, "splits": 8}
    return _cifar10("moco", settings, **_sgd(512, 800, 0.06, 5e-4))


def byol() -> Recipe:
    """BYOL: the authors published nothing for CIFAR-10, so lightly's heads and optimiser, solo-learn's views.

    Command:  hardpair pretrain cifar10/byol
    Cost:     8 forwards per image, 800 epochs.
    Score:    not run here; published: kNN 91.0 % (lightly, with its own views and a constant momentum).
    """
    settings: dict[str, Setting] = {"first_view": "byol_cifar_first", "second_view": "byol_cifar_second"}
    settings |= {"head_hidden": 1024, "momentum": 0.99}
    return _cifar10("byol", settings, **_sgd(512, 800, 0.24, 5e-4))


def simsiam() -> Recipe:
    """SimSiam, the CIFAR-10 settings of the paper's appendix, with crops from .08 rather than .2.

    Command:  hardpair pretrain cifar10/simsiam
    Cost:     6 forwards per image, 800 epochs.
    Score:    not run here; published: linear 91.8 % (paper).
    """
    return _cifar10("simsiam", {"view": "cifar", "head_layers": 2}, **_sgd(512, 800, 0.06, 5e-4))


def cmc() -> Recipe:
    """CMC: nothing is published for CIFAR-10, so two streams of half the width and the authors' STL-10 temperature.

    Command:  hardpair pretrain cifar10/cmc
    Cost:     about 2 forwards per image, 240 epochs.
    Score:    not run here; nothing is published.
    """
    settings: dict[str, Setting] = {"temperature": 0.1, "negatives": 4096}
    return _cifar10("cmc", settings, **_sgd(128, 240, 0.03, 1e-4), schedule="steps")


def cpc() -> Recipe:
    """CPC v2, the settings of the reproduction in Lightning Bolts.

    Command:  hardpair pretrain cifar10/cpc
    Cost:     about 12 forwards per image, 1,000 epochs.
    Score:    not run here; published: 84.5 % (Bolts, fine-tuned, a wider encoder).
    """
    fields = {"batch_size": 64, "epochs": 1000, "learning_rate": 4e-5, "weight_decay": 1e-5}
    return _cifar10("cpc", {}, **fields)


def infomin() -> Recipe:
    """InfoMin: nothing is published for CIFAR-10; MoCo's settings, its own temperature, views and jigsaw.

    Command:  hardpair pretrain cifar10/infomin
    Cost:     about 6 forwards per image, 800 epochs.
    Score:    not run here; nothing is published.
    """
    return _cifar10("infomin", {"queue": 4096, "momentum": 0.99, "splits": 8}, **_sgd(512, 800, 0.06, 5e-4))


def instdisc() -> Recipe:
    """InstDisc, the official CIFAR-10 settings: softmax over the whole bank, no flips.

    Command:  hardpair pretrain cifar10/instdisc
    Cost:     3 forwards per image, 200 epochs.
    Score:    not run here; published: kNN about 80 % (paper).
    """
    settings: dict[str, Setting] = {"view": "instdisc_cifar", "temperature": 0.1, "negatives": 0}
    return _cifar10("instdisc", settings, **_sgd(128, 200, 0.03, 5e-4), schedule="steps")


def supervised() -> Recipe:
    """The baseline that uses all labels.

    Command:  hardpair pretrain cifar10/supervised
    Cost:     3 forwards per image, 200 epochs.
    Score:    not run here; published: about 95 %.
    """
    return _cifar10("supervised", {}, **_sgd(128, 200, 0.1, 5e-4))


def _sgd(batch_size: int, epochs: int, learning_rate: float, weight_decay: float) -> dict[str, Any]:
    return {
        "batch_size": batch_size,
        "epochs": epochs,
        "optimiser": "sgd",
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "decay_norms": True,  # published codes give SGD every parameter
    }
