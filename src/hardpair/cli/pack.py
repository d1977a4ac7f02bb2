"""`hardpair pack`: decode a folder once for all."""

from collections.abc import Sequence

from hardpair.cli.arguments import parse
from hardpair.options import Pack


def main(arguments: Sequence[str]) -> int:
    """Decode a folder once for all."""
    options = parse(Pack, arguments, "hardpair pack")
    from hardpair.data.pack import run_pack

    return run_pack(options)
