"""Options of `hardpair compare`; light, so that help answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardpair.errors import UserError, require_range
from hardpair.sweep.conditions import Conditions


@dataclass(frozen=True)
class Compare(Conditions):
    """Train several methods under the same conditions and put their scores side by side.

    All methods share encoder and images: those of FAMILY/hnpm, or what you give below. Batch, optimiser, learning rate
    and the method's own settings are those of FAMILY/METHOD; a batch that you give is everybody's, and SGD's and LARS's
    learning rates are scaled with it; a warm-up keeps its share of the epochs. Runs are evaluated by nearest
    neighbours and by a linear classifier, each beside a random encoder of the same shape.

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
        methods: names with commas between them, "supervised" among them, or "all".
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
