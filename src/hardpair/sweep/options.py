"""Options of `hardpair compare` and `hardpair ablate`; light, so that help answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from hardpair.errors import UserError, require_range


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What all runs of a sweep have in common.

    Args:
        data: "sample" (bundled photos), "cifar10", a part of them ("cifar10:10000"), or a folder of labelled images;
            what is not given, from here to batch_size, is the recipe's.
        encoder: depth of the ResNet, "resnet10" to "resnet200".
        width: multiplies every channel count.
        sk: selective kernels, in bottlenecks.
        image_size: side in pixels to which images are resized once, before training.
        view_size: side of the views in training, as a share of image_size.
        small_images: 3x3 stem of stride 1 without pooling, for images up to about 64 px.
        batch_size: images per step.
        seeds: runs of each method or variant, with the seeds 0, 1, 2 …
        on: "test", or "validation": a fifth of the training images, for every choice you make.
        skip_broken: share of unreadable files that may be left out, such as 0.2; up to 5 % always may.
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
    skip_broken: float = 0.0
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0

    def __post_init__(self) -> None:
        require_range("seeds", self.seeds, 1, 1000)


SHARED = ("data", "encoder", "width", "sk", "image_size", "view_size", "small_images")
"""What all methods of a comparison have in common, whatever is given. A batch size they share only if one is given:
large batches suit some methods, small ones others."""


@dataclass(frozen=True)
class Compare(Conditions):
    """Train several methods under the same conditions and put their scores side by side.

    All methods share encoder and images: those of FAMILY/hnpm, or what you give below. Batch, optimiser, learning rate
    and the method's own settings are those of FAMILY/METHOD. A --batch-size that you give holds for all methods; the
    learning rates of SGD and LARS are scaled with it. A warm-up keeps its share of the epochs. Runs are evaluated by
    nearest neighbours and by a linear classifier, each beside a random encoder of the same shape.

    OUT/table.md, OUT/figure.png, OUT/figure.svg and OUT/compare.json are written anew after every run. Ctrl-C stops;
    the same command goes on from there. Finished runs are kept, so more seeds, budgets or methods can be added later.
    Started several times (once per GPU, say), the same command shares the runs out among the processes.

    What is fair? With --unit epochs every method sees the images equally often, whatever that costs. With --unit
    forwards every method may spend the same compute: the budget is in forwards of the encoder per image, where a
    forward with its backward counts about 3. The cost of each method is measured and not declared. Several budgets
    give a curve, each point a run of its own whose schedule ends there.

        hardpair compare --methods hnpm,simclr --budget 2 --seeds 1          a first look
        hardpair compare --methods all --unit forwards --budget 40 80 160    accuracy against compute; hours

    A comparison outlives its runs: with --known, what an earlier compare.json holds, by the same recipe on the same
    images, is taken from there. So a method of your own is put beside the others without training them again.

    Choose with --on validation; keep the test images for the end.

    Args:
        methods: names with commas between them, or "all"; "supervised" is the baseline with labels, and a method of
            your own is path/to/file.py:CLASS.
        family: whose recipes: demo, cifar10 or imagenet; hardpair recipes lists them.
        budget: how long each method trains; several give a curve.
        unit: of the budget: passes over the images, or forwards per image.
        labels: shares of the labels, 0.01 0.1 say, with which every encoder is fine-tuned too (evaluate's semi).
        known: compare.json of earlier comparisons; what they hold is not done again.
        out: folder of the comparison; each run is a folder in it.
    """

    methods: str = "hnpm,simclr,byol,supervised"
    family: str = "demo"
    budget: tuple[int, ...] = (20,)
    unit: Literal["epochs", "forwards"] = "epochs"
    labels: tuple[float, ...] = ()
    known: tuple[Path, ...] = ()
    out: Path = Path("runs/compare")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.budget:
            raise UserError("budget: give at least one")
        for budget in self.budget:
            require_range("budget", budget, 1, 100_000)
        for share in self.labels:
            require_range("labels", share, 1e-6, 1)


Which = Literal["tau", "mining", "gradient", "parts"]


@dataclass(frozen=True)
class Ablate(Conditions):
    """Repeat an ablation: one recipe of HNPM with one thing changed, everything else equal, over seeds.

    tau: how much of the old student is kept at each step, 1, .999, .5 or 0 (Table 7). mining: hard negative pairs, or
    all pairs (Figure 2). gradient: the student's gradient blocked, or let through (Figure 2). What the paper settles
    on (tau .5, mining, gradient blocked) is the base of all three, and its runs are shared.

    parts: what each part of HNPM is worth, and of the softmax losses beside it: mining, softmax or Eq. 4, the partner
    (averaged, stopped or trained), the small view, the positive in the sum, the batch. Twenty cells that spend equal
    forwards, and the effect of each part with its confidence interval. Cells that carry a claim have two more seeds.

    Encoders are evaluated by nearest neighbours and by a linear classifier, also during training (--points), each
    beside a random encoder of the same shape. OUT/WHICH.md, .png, .svg and .json are written anew after every run.
    Ctrl-C stops; the same command goes on from there. Finished runs are kept, so more seeds can be added later.
    Started several times, the same command shares the runs out among the processes.

        hardpair ablate mining --epochs 4 --seeds 1    a first look
        hardpair ablate tau                            the demo twelve times: four variants, three seeds
        hardpair ablate parts --data cifar10:10000 --epochs 10      72 runs

    Choose with --on validation; keep the test images for the end.

    Args:
        which: tau, mining, gradient or parts.
        recipe: whose settings; any recipe of HNPM, hardpair recipes lists them.
        epochs: passes over the images.
        points: at how many equally spaced epochs the encoder is evaluated, the end among them; when not given 5, but
            for tau, which is a table in the paper, only of the shared base.
        out: folder of the ablations; each run is a folder in it.
    """

    which: tyro.conf.Positional[Which]
    recipe: str = "demo/hnpm"
    epochs: int | None = None
    points: int | None = None
    only: tuple[str, ...] = ()
    out: Path = Path("runs/ablate")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points is not None:
            require_range("points", self.points, 1, 100_000)
        if self.only and self.which != "parts":
            raise UserError(f"only: goes with `ablate parts`; {self.which} has few variants")
