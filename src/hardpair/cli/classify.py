"""`hardpair classify`: labels of some pictures → a class for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import UserError, printable

PREDICTIONS, HEAD = "predictions.csv", "head"


@dataclass(frozen=True)
class Classify:
    """Classify all pictures of EMB by the labels of some, or new pictures by a head that was fitted before.

    Without --head, a linear head is fitted on the labels and saved; its strength is chosen by cross-validation and its
    probabilities are calibrated. What is printed was measured on labels that were held out. With --head, EMB may also
    be a folder or a list of pictures that were not embedded yet, and labels, if there are any, measure the head.

    OUT gets a line per picture: filename, label, probability, second (class), margin (between the two), given (label).
    A page beside it shows the pictures that the head is least sure of, by class.

    Args:
        pictures: folder that hardpair embed wrote; with --head also a folder or a list of new pictures.
        labels: a CSV with the columns filename and label, such as hardpair select writes; without it the folders that
            the pictures lie in are their labels, and where there is a training split the others only measure the head.
        out: the predictions; EMB/predictions.csv when not given.
        head: folder of a head to use; nothing is fitted.
        save_to: folder to save the head in; EMB/head when not given.
        finetune: train the encoder too. A fifth of the labels is held out to compare it with the linear head, and the
            one that is right more often is taken. The network is saved in the folder of the head, as an encoder that
            embed and export take.
        epochs: of fine-tuning; 0 chooses.
        vectors: keep the vectors of new pictures in this folder.
        encoder: where the encoder is now, if it was moved.
        images: where the pictures of EMB are now, if they were moved.
        data_root: where downloaded sets are kept.
        device: for the encoder: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    pictures: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EMB")]
    labels: Path | None = None
    out: Path | None = None
    head: Path | None = None
    save_to: Path | None = None
    finetune: bool = False
    epochs: int = 0
    vectors: Path | None = None
    encoder: str | None = None
    images: Path | None = None
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Classify, print the report, say where everything is."""
    options = parse(Classify, arguments, "hardpair classify")
    embedded = (Path(options.pictures) / "manifest.json").exists()
    if options.out is None and options.head is not None and not embedded:
        raise UserError("out: say where the predictions go, with --out predictions.csv")
    out = options.out or Path(options.pictures, PREDICTIONS)
    save_to = options.save_to or (Path(options.pictures, HEAD) if options.head is None else None)
    words = {**vars(options), "csv": out, "page": out.with_suffix(".html"), "save_to": save_to}
    del words["out"]
    from hardpair.embeddings.classify import classify

    made = classify(**words)
    for line in made.lines():
        print(printable(line))
    print(f"predictions: {out}")
    print(f"least sure of: {words['page']}")
    if save_to is not None:
        print(f"new pictures: hardpair classify PICTURES --head {save_to} --out predictions.csv")
    return 0
