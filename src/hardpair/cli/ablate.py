"""`hardpair ablate`: repeat an ablation of the paper, or ask what each part is worth."""

import shlex
from collections.abc import Sequence

from hardpair.cli.arguments import parse
from hardpair.cli.compare import ended
from hardpair.machine import prepare_to_compute
from hardpair.sweep.options import Ablate


def main(arguments: Sequence[str]) -> int:
    """Repeat an ablation."""
    options = parse(Ablate, arguments, "hardpair ablate")
    from hardpair.sweep.ablate import run_ablation
    from hardpair.sweep.parts import run_parts

    prepare_to_compute(options.threads)
    run = run_parts if options.which == "parts" else run_ablation
    return ended(run(options, shlex.join(["hardpair", "ablate", *arguments])))
