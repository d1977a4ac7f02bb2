"""`hardpair evaluate`: score the encoder of a run."""

from collections.abc import Sequence

from hardpair.cli.arguments import parse
from hardpair.options import Evaluate


def main(arguments: Sequence[str]) -> int:
    """Score an encoder."""
    options = parse(Evaluate, arguments, "hardpair evaluate")
    from hardpair.api import Run
    from hardpair.evaluate.command import settings_from

    Run(options.run).evaluate(
        *options.protocol,
        data=options.data,
        image_size=options.image_size,
        on=options.on,
        data_root=options.data_root,
        device=options.device,
        threads=options.threads,
        settings=settings_from(options),
    )
    return 0
