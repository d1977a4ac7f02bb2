"""`hardpair ablate`: repeat an ablation of the paper."""

import shlex
from collections.abc import Sequence

from hardpair.ablate.options import Ablate
from hardpair.cli.arguments import parse
from hardpair.cli.compare import ended
from hardpair.machine import prepare_to_compute


def main(arguments: Sequence[str]) -> int:
    """Repeat an ablation of the paper."""
    options = parse(Ablate, arguments, "hardpair ablate")
    from hardpair.ablate.run import run_ablation

    prepare_to_compute(options.threads)
    return ended(run_ablation(options, shlex.join(["hardpair", "ablate", *arguments])))
