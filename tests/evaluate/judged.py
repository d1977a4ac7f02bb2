"""A run judged on however many processes share the work."""

from pathlib import Path

import torch

from hardpair.evaluate import evaluate_run
from hardpair.train.parallel import process_group


def judge(run: Path, cache: Path, protocols: tuple[str, ...] = ("knn", "linear")) -> None:
    """Write the scores into the run; features are kept in a cache of its own."""
    import os

    os.environ["HARDPAIR_CACHE"] = str(cache)
    torch.set_num_threads(1)
    device = torch.device("cpu")
    with process_group(device):
        evaluate_run(run, protocols, data_root=Path(), device=device, say=print)
