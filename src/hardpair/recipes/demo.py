"""Recipes for the 5,000 bundled photos and two CPU cores, one function each: every method under the same conditions.

Encoder, optimiser, epochs and, where a method leaves the choice open, views are the same, so that a comparison compares
methods; batch, learning rate and head are what served each best in a search that was the same for those of the
comparison (docs/log.md). Settings that only make sense at scale (queues, momenta) are made smaller. Costs are in
forwards of the whole image; views are smaller. Scores are top-1 in per cent on test images. Those on cifar10:10000 are
of these settings, with other images and epochs; a random encoder has linear 35.0 and kNN 30.2 there.
"""

from typing import Any

from hardpair.recipes.recipe import Recipe, Setting

WORKING: dict[str, Setting] = {
    "head_hidden": 512,
    "head_outputs": 128,
    "teacher_view": "balanced",
    "student_view": "balanced",
    "alpha_pos": 1.0,
    "alpha_neg": 1.0,
    "threshold": 1.4,
    "norm": "l2",
    "softness": 0.2,
    "small_views": 1,
}
"""Settings of HNPM that work at small scale; docs/explanation/method.md says why."""


def _demo(method: str, settings: dict[str, Setting], *, batch_size: int = 160, learning_rate: float = 2e-3) -> Recipe:
    # Views of 24 px cost about half as much as views of 32, and the epochs they pay for are worth more.
    fields: dict[str, Any] = {"encoder": "resnet10", "width": 0.25, "view_size": 0.75, "epochs": 25}
    fields |= {"batch_size": batch_size, "learning_rate": learning_rate}
    return Recipe(name=f"demo/{method}", method=method, settings=settings, **fields)


def default(method: str) -> Recipe:
    """A method for which nobody has written a recipe: the demo's conditions, the method's own defaults."""
    return _demo(method, {})


def hnpm() -> Recipe:
    """HNPM with the settings that work at small scale.

    Command:  hardpair pretrain
    Cost:     3.0 forwards per image; about four minutes on two CPU cores.
    Score:    linear 56.4 ± 1.8, kNN 49.5 ± 1.8 (3 seeds, 2026-11-16); a random encoder has 34.8 and 28.6
              (docs/log.md, "The demo with soft mining, a small view and batches of 40").
    """
    return _demo("hnpm", WORKING, batch_size=40)


def simclr() -> Recipe:
    """SimCLR with the demo's views, and a wider head than its published one.

    Command:  hardpair pretrain demo/simclr
    Cost:     3.5 forwards per image.
    Score:    linear 52.0 ± 1.1, kNN 48.5 ± 0.7 on cifar10:10000, 9 epochs (3 seeds, 2026-11-17); these settings
              were not run on the sample (docs/log.md, "HNPM beside four others, after the same search for all").
    """
    return _demo("simclr", {"view": "balanced", "temperature": 0.1, "head_hidden": 1024}, learning_rate=4e-3)


def simclrv2() -> Recipe:
    """SimCLRv2 with the demo's views and head.

    Command:  hardpair pretrain demo/simclrv2
    Cost:     3.5 forwards per image.
    Score:    not run in this form; linear 40.9 ± 0.4, kNN 35.8 ± 0.3 after 15 epochs with earlier initial weights,
              views and learning rate (3 seeds, 2026-11-16, docs/log.md, "All methods on the sample").
    """
    return _demo("simclrv2", {"view": "balanced", "temperature": 0.2, "head_hidden": 512})


def moco() -> Recipe:
    """MoCo v2 with the demo's views, a queue of 1,024, a faster key encoder, and its authors' temperature for CIFAR-10.

    Command:  hardpair pretrain demo/moco
    Cost:     2.3 forwards per image.
    Score:    linear 46.8 ± 0.4, kNN 40.2 ± 0.4 on cifar10:10000, 14 epochs (3 seeds, 2026-11-17); these settings
              were not run on the sample (docs/log.md, "HNPM beside four others, after the same search for all").
    """
    memory: dict[str, Setting] = {"queue": 1024, "momentum": 0.99}
    return _demo("moco", {"view": "balanced", "head_hidden": 512, **memory, "temperature": 0.1}, batch_size=40)


def byol() -> Recipe:
    """BYOL with the demo's views and head, and a much faster target.

    Command:  hardpair pretrain demo/byol
    Cost:     4.6 forwards per image.
    Score:    linear 44.4 ± 0.7, kNN 36.5 ± 1.8 on cifar10:10000, 7 epochs (3 seeds, 2026-11-17); these settings
              were not run on the sample (docs/log.md, "HNPM beside four others, after the same search for all").
    """
    views: dict[str, Setting] = {"first_view": "balanced", "second_view": "balanced"}
    return _demo("byol", {**views, "head_hidden": 512, "head_outputs": 128, "momentum": 0.9}, batch_size=80)


def simsiam() -> Recipe:
    """SimSiam with the demo's views and CIFAR's two-layer projector, narrower.

    Command:  hardpair pretrain demo/simsiam
    Cost:     3.5 forwards per image.
    Score:    linear 44.1 ± 1.1, kNN 36.4 ± 1.0 on cifar10:10000, 9 epochs (3 seeds, 2026-11-17); these settings
              were not run on the sample (docs/log.md, "HNPM beside four others, after the same search for all").
    """
    heads: dict[str, Setting] = {"head_layers": 2, "head_outputs": 512, "predictor_hidden": 128}
    return _demo("simsiam", {"view": "balanced", **heads}, batch_size=40, learning_rate=1e-3)


def cmc() -> Recipe:
    """CMC with all other images as negatives.

    Command:  hardpair pretrain demo/cmc
    Cost:     1 forward per image: two streams of half the width.
    Score:    not run in this form; linear 38.4 ± 0.8, kNN 34.4 ± 2.2 after 15 epochs with earlier initial weights,
              views and learning rate (3 seeds, 2026-11-16, docs/log.md, "All methods on the sample").
    """
    return _demo("cmc", {"temperature": 0.1, "negatives": 0})


def cpc() -> Recipe:
    """CPC v2 on 7 x 7 patches of 8 px, narrower context networks, negatives from 16 images at a time.

    Command:  hardpair pretrain demo/cpc
    Cost:     about 19 forwards per image: the patches overlap, and there are four context networks.
    Score:    not run in this form; linear 38.9 ± 1.1, kNN 29.2 ± 0.8 after 15 epochs with earlier initial weights,
              views and learning rate (3 seeds, 2026-11-16, docs/log.md, "All methods on the sample").
    """
    return _demo("cpc", {"group": 16, "context_hidden": 64})


def infomin() -> Recipe:
    """InfoMin with its own views and jigsaw, and the queue, momentum and temperature of the demo's MoCo.

    Command:  hardpair pretrain demo/infomin
    Cost:     4.2 forwards per image.
    Score:    not run in this form; linear 37.0 ± 0.6, kNN 31.4 ± 0.4 after 15 epochs with earlier initial weights,
              views and learning rate (3 seeds, 2026-11-16, docs/log.md, "All methods on the sample").
    """
    return _demo("infomin", {"head_hidden": 512, "queue": 1024, "momentum": 0.99, "temperature": 0.1})


def instdisc() -> Recipe:
    """InstDisc with the demo's views and all other images as negatives.

    Command:  hardpair pretrain demo/instdisc
    Cost:     1.8 forwards per image.
    Score:    not run in this form; linear 36.6 ± 2.7, kNN 32.6 ± 0.9 after 15 epochs with earlier initial weights,
              views and learning rate (3 seeds, 2026-11-16, docs/log.md, "All methods on the sample").
    """
    return _demo("instdisc", {"view": "balanced", "temperature": 0.1, "negatives": 0})


def supervised() -> Recipe:
    """The baseline that uses all labels.

    Command:  hardpair pretrain demo/supervised
    Cost:     1.7 forwards per image.
    Score:    not run in this form; linear 46.8 ± 0.2, kNN 42.8 ± 0.4 after 15 epochs with earlier initial weights,
              views and learning rate (3 seeds, 2026-11-16, docs/log.md, "All methods on the sample").
    """
    return _demo("supervised", {})


def paper() -> Recipe:
    """The paper to the letter (no head, alpha .8/.1, threshold 1, tau .5, Adam .1, batch 160, clip 1) with the demo's
    photos and encoder. imagenet/hnpm-paper is the same at the paper's own scale.

    Command:  hardpair pretrain paper
    Cost:     4 forwards per image, 100 epochs; about ten minutes on two CPU cores.
    Score:    linear 36.8, kNN 31.5 with earlier initial weights (1 seed, 2026-11-16); a random encoder had 34.8 and
              30.3 (docs/log.md, "The paper to the letter, at this scale").
    """
    return Recipe(
        name="paper",
        encoder="resnet10",
        width=0.25,
        epochs=100,
        batch_size=160,
        optimiser="adam",
        learning_rate=0.1,
        schedule="paper",
        clip=1.0,
    )
