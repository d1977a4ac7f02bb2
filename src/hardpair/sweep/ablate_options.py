"""Options of `hardpair ablate`; light, so that help answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from hardpair.errors import require_range
from hardpair.sweep.conditions import Conditions

Which = Literal["tau", "mining", "gradient"]


@dataclass(frozen=True)
class Ablate(Conditions):
    """Repeat an ablation of the paper: one recipe of HNPM with one thing changed, everything else equal, over seeds.

    tau: how much of the old student is kept at each step, 1, .999, .5 or 0 (Table 7). mining: hard negative pairs, or
    all pairs (Figure 2). gradient: the student's gradient blocked, or let through (Figure 2). What the paper settles
    on (tau .5, mining, gradient blocked) is the base of all three, and its runs are shared.

    Encoders are evaluated by nearest neighbours and by a linear classifier, also during training (--points), each
    beside a random encoder of the same shape. OUT/WHICH.md, .png, .svg and .json are written anew after every run.
    Ctrl-C stops; the same command goes on from there. Finished runs are kept, so more seeds can be added later.
    Started several times, the same command shares the runs out among the processes.

        hardpair ablate mining --epochs 4 --seeds 1    a first look
        hardpair ablate tau                            the demo twelve times: four variants, three seeds

    Choose with --on validation; keep the test images for the end.

    Args:
        which: tau, mining or gradient.
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
    out: Path = Path("runs/ablate")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points is not None:
            require_range("points", self.points, 1, 100_000)
