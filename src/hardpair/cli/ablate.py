"""`hardpair ablate`: repeat an ablation of the paper."""

import shlex
from collections.abc import Sequence

from hardpair.cli.arguments import parse
from hardpair.cli.compare import ended
from hardpair.machine import prepare_to_compute
from hardpair.sweep.options import Ablate


def main(arguments: Sequence[str]) -> int:
    """Repeat an ablation of the paper."""
    options = parse(Ablate, arguments, "hardpair ablate")
    from hardpair.sweep.ablate import run_ablation

    prepare_to_compute(options.threads)
    return ended(run_ablation(options, shlex.join(["hardpair", "ablate", *arguments])))
