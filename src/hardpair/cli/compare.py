"""`hardpair compare`: methods side by side."""

import shlex
from collections.abc import Sequence

from hardpair.cli.arguments import parse
from hardpair.machine import prepare_to_compute
from hardpair.sweep.options import Compare


def main(arguments: Sequence[str]) -> int:
    """Put methods side by side."""
    options = parse(Compare, arguments, "hardpair compare")
    from hardpair.sweep.compare import compare_methods

    prepare_to_compute(options.threads)
    return ended(compare_methods(options, shlex.join(["hardpair", "compare", *arguments])))


def ended(stopped_by: int | None) -> int:
    """Exit code of a verb that a signal may have stopped among its runs."""
    if stopped_by is not None:
        print("stopped; the same command goes on from there")
        return 128 + stopped_by
    return 0
