"""A plain script, started with ``python -I``: load an export as its card says, without hardpair, and run it.

    python -I reload.py JOB.json

The job names the lines to run, the pixels (.npy) and where the outputs of each batch size go (.npy).
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = "hardpair"


class Refusing:
    """Lets nobody import the package that wrote the export."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002
        """Nothing, or an error."""
        if name.partition(".")[0] == PACKAGE:
            raise ModuleNotFoundError(f"No module named {name!r}: an export must do without it", name=name)


def forget_package() -> None:
    """Take it out of reach, and make sure that it is."""
    sys.path[:] = [
        entry
        for entry in sys.path
        if not Path(entry, PACKAGE).exists() or Path(entry, "torch").exists()  # beside torch it is refused by name
    ]
    sys.meta_path.insert(0, Refusing())
    try:
        __import__(PACKAGE)
    except ModuleNotFoundError:
        return
    raise SystemExit("hardpair can be imported, so that nothing is shown")


def load(lines: list[str]) -> Callable[[Any], Any]:
    """What the lines call ``model``."""
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)  # noqa: S102 - our own lines, those of the card
    model: Callable[[Any], Any] = names["model"]
    return model


def main() -> None:
    """Run the job."""
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    forget_package()
    import numpy as np

    pixels = np.load(job["pixels"])  # uint8 (N, 3, S, S)
    model = load(job["lines"])
    run = normalised(model, job) if job["takes"] == "normalised" else model
    outputs = [
        np.concatenate([run(pixels[start : start + size]) for start in range(0, len(pixels), size)])
        for size in job["batches"]
    ]
    if found := [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        raise SystemExit(f"loaded {found[0]} of hardpair")
    np.save(job["out"], np.stack(outputs))  # (B, N, D)


def normalised(model: Any, job: dict[str, Any]) -> Callable[[Any], Any]:
    """The model of images that are normalised as its config says."""
    import torch

    mean, std = (torch.tensor(job[name])[:, None, None] for name in ("mean", "std"))

    def run(pixels: Any) -> Any:
        with torch.no_grad():
            return model((torch.from_numpy(pixels) / 255 - mean) / std).numpy()

    return run


if __name__ == "__main__":
    main()
