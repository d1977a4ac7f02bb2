"""Keep what a benchmark found: results/bench/NAME.json, with the date, the machine and the versions."""

import json
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from hardpair.files import commit

FOLDER = Path(__file__).parent.parent / "results" / "bench"


def record(name: str, figures: dict[str, Any]) -> None:
    """Write the figures beside those of other benchmarks; the last run counts."""
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "versions": {"torch": str(torch.__version__), "python": platform.python_version()},
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.json"
    file.write_text(json.dumps({**about, **figures}, indent=2) + "\n")
    print(f"written to {file.relative_to(FOLDER.parent.parent)}")


def found_before(name: str, parts: Iterable[str]) -> dict[str, Any]:
    """What earlier runs found of these parts."""
    file = FOLDER / f"{name}.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    return {part: known[part] for part in parts if part in known}


def _processor() -> str:
    """The name, and which vector instructions it has."""
    facts = dict(
        (part.strip() for part in line.split(":", 1))
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    kinds = [kind for kind in ("avx2", "avx512f") if kind in facts.get("flags", "").split()]
    return f"{facts.get('model name', platform.processor())} ({', '.join(kinds)})"
