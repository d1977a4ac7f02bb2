"""`hardpair export`: an encoder for other people's code."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardpair.cli.arguments import parse


@dataclass(frozen=True)
class Export:
    """Write an encoder for timm, torchvision, the Hugging Face hub, ONNX or plain torch, with a model card.

    OUT gets the weights (safetensors or ONNX, never a pickle), config.json and README.md: what the encoder learned
    from, its scores beside those of a random encoder, and three lines that load it. First it is loaded in a process
    without hardpair, on 64 real pictures at batches of 1, 7 and 64; where outputs differ, nothing is written.

    Args:
        encoder: folder of a run, timm:NAME, a file of weights, or a folder that hardpair export wrote.
        to: timm, torchvision, huggingface (timm's layout, or plain torch), onnx (needs pip install 'hardpair[onnx]') or
            torch (weights beside a file of Python that needs only torch).
        out: the new folder.
        head: folder of a head that hardpair classify wrote; the export then gives logits, whose softmax is calibrated.
        image_size: pixels that the encoder sees; as in training, or as the head was fitted, when not given.
        name: for a file of weights: the encoder it belongs to, if the file does not show it.
        data_root: where downloaded sets are kept, for the pictures of the check.
        threads: of the CPU; 0 leaves the choice to torch.
    """

    encoder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENCODER")]
    to: Literal["timm", "torchvision", "huggingface", "onnx", "torch"]
    out: Path
    head: Path | None = None
    image_size: int | None = None
    name: str = ""
    data_root: Path = Path("data")
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Export, and say how to load what there is now."""
    options = parse(Export, arguments, "hardpair export")
    from hardpair.exporters.export import export

    made = export(**vars(options))
    checked = made.checked
    difference = f"outputs differ by at most {checked.difference:.1e} of their size"
    print(f"{made.folder}: {made.form}, checked without hardpair on {checked.pictures}: {difference}")
    print("load it, in the folder that holds it, with:")
    print("\n".join(f"    {line}" for line in made.lines))
    return 0
