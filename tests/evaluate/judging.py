"""Judging a run by one protocol, as the command does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hardpair.evaluate import Settings, evaluate_run
from hardpair.recipes.tuning import PRESETS

CPU = torch.device("cpu")
QUICK = replace(PRESETS["simclr"], epochs=(4,), epochs_with_few=(4,))


def judge(run: Path, protocol: str, settings: Settings, **changes: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The scores, and what was said."""
    said: list[str] = []
    options = {"data_root": run, "device": CPU, "say": said.append, **changes}
    return evaluate_run(run, [protocol], settings=settings, **options), said
