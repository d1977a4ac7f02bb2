"""`hardpair evaluate`: score the encoder of a run."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import UserError
from hardpair.protocol_settings import Distilled, Knn, ProtocolName, Transferred, Tuned


@dataclass(frozen=True)
class Evaluate:
    """Score the encoder of a run on labelled images, and a randomly initialised encoder of the same shape.

    knn: weighted votes of the nearest neighbours. linear: a linear classifier on the features. semi: fine-tuning with
    few labels. distill: that network then teaches another on the unlabelled images. transfer: other data sets.
    docs/explanation/protocols.md has every detail.

    Args:
        run: folder of the run.
        protocol: which protocols.
        data: labelled images; those of the run when not given. transfer has its own.
        image_size: pixels that the encoder sees; as in training when not given.
        on: "test", or "validation": a fifth of the training images, for every choice you make.
        skip_broken: share of unreadable files that may be left out, such as 0.2; up to 5 % always may.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    run: tyro.conf.Positional[Path]
    protocol: tuple[ProtocolName, ...] = ("knn", "linear")
    data: str | None = None
    image_size: int | None = None
    on: Literal["test", "validation"] = "test"
    skip_broken: float = 0.0
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0
    knn: Knn = field(default_factory=Knn)
    tuned: Tuned = field(default_factory=Tuned)
    distilled: Distilled = field(default_factory=Distilled)
    transferred: Transferred = field(default_factory=Transferred)


def main(arguments: Sequence[str]) -> int:
    """Score an encoder."""
    options = parse(Evaluate, arguments, "hardpair evaluate")
    if not options.protocol:
        raise UserError(f"protocol: give at least one of {', '.join(get_args(ProtocolName))}")
    from hardpair.api import Run

    Run(options.run).evaluate(
        *options.protocol,
        data=options.data,
        image_size=options.image_size,
        on=options.on,
        skip_broken=options.skip_broken,
        data_root=options.data_root,
        device=options.device,
        threads=options.threads,
        **dict(protocol_options(options)),
    )
    return 0


def protocol_options(options: Evaluate) -> Iterator[tuple[str, Any]]:
    """Name and value of every setting of the protocols that is not at its default."""
    for group in (options.knn, options.tuned, options.distilled, options.transferred):
        for each in dataclasses.fields(group):
            if (value := getattr(group, each.name)) != each.default:
                yield each.name, value
