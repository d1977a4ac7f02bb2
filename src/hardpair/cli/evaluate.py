"""`hardpair evaluate`: score the encoder of a run."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import UserError
from hardpair.protocol_settings import Distilled, Knn, ProtocolName, Transferred, Tuned

NO_DATA = "none"  # in the recipe of an encoder from elsewhere that is only transferred, to sets with data of their own


@dataclass(frozen=True)
class Evaluate:
    """Score an encoder on labelled images, and a randomly initialised encoder of the same shape.

    The encoder is that of a run, or one trained elsewhere: timm:NAME, or a file of weights with --data. Then its scores
    are kept in a folder below runs/, named by its weights, which `hardpair report` takes too.

    knn: weighted votes of the nearest neighbours. linear: a linear classifier on the features. semi: fine-tuning with
    few labels. distill: that network then teaches another on the unlabelled images. transfer: other data sets.
    docs/explanation/protocols.md has every detail.

    Args:
        run: folder of the run, timm:NAME, a file of weights (safetensors or a state dict), or an export.
        encoder: for a file of weights: the encoder it belongs to, if the file does not show it.
        protocol: which protocols.
        data: labelled images; those of the run when not given. transfer has its own.
        image_size: pixels that the encoder sees; as in training when not given.
        on: "test", or "validation": a fifth of the training images, for every choice you make.
        skip_broken: share of unreadable files that may be left out, such as 0.2; up to 5 % always may.
        data_root: where downloaded sets are kept.
        precision: of the encoders' arithmetic; auto takes bfloat16 where the hardware has it, about twice as fast.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    encoder: str = ""
    protocol: tuple[ProtocolName, ...] = ("knn", "linear")
    data: str | None = None
    image_size: int | None = None
    on: Literal["test", "validation"] = "test"
    skip_broken: float = 0.0
    data_root: Path = Path("data")
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
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
    from hardpair import api

    data = NO_DATA if options.data is None and set(options.protocol) == {"transfer"} else options.data
    run = api.open_run(options.run, data=data, encoder=options.encoder, image_size=options.image_size)
    run.evaluate(
        *options.protocol,
        data=options.data,
        image_size=options.image_size,
        on=options.on,
        skip_broken=options.skip_broken,
        data_root=options.data_root,
        precision=options.precision,
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
