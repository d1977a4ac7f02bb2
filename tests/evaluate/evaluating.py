"""Evaluating a run by one protocol, as the command does, in one process or on several ranks."""

import os
from pathlib import Path
from typing import Any

import torch

from hardpair.evaluate import Settings, evaluate_run
from hardpair.protocol_settings import Tuned
from hardpair.train.parallel import process_group

CPU = torch.device("cpu")
QUICK = Tuned(labels=(0.1,), epochs=4, batch_size=50)


def evaluate(
    run: Path, *protocols: str, settings: Settings | None = None, **changes: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """The scores, and what was printed."""
    said: list[str] = []
    options = {"data_root": run, "device": CPU, "say": said.append, **changes}
    return evaluate_run(run, protocols, settings=settings, **options), said


def evaluate_on_ranks(run: Path, cache: Path, protocols: tuple[str, ...] = ("knn", "linear")) -> None:
    """Write the scores into the run, from a rank of a process group; features are cached in a folder of its own."""
    os.environ["HARDPAIR_CACHE"] = str(cache)
    torch.set_num_threads(1)
    with process_group(CPU):
        evaluate_run(run, protocols, data_root=Path(), device=CPU, say=print)
