"""`hardpair doctor`: check this machine and a data set."""

from collections.abc import Sequence

from hardpair.cli.arguments import parse
from hardpair.doctor import Doctor
from hardpair.machine import prepare_to_compute


def main(arguments: Sequence[str]) -> int:
    """Check the machine."""
    options = parse(Doctor, arguments, "hardpair doctor")
    from hardpair.doctor.checks import run_doctor

    prepare_to_compute(threads=0)
    return run_doctor(options)
