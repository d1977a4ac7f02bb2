"""An ablation small enough for tests, and how to read what it left."""

import json
from pathlib import Path
from typing import Any

STEPS = 6  # an epoch: 300 images in batches of 50
SEEDS = {"mining": 2, "gradient": 1, "tau": 1}


def words(which: str, photos: Path, out: Path, *more: str) -> list[str]:
    small = ["--width", ".0625", "--image-size", "8", "--batch-size", "50", "--epochs", "2"]
    seeds = str(SEEDS.get(which, 1))
    return [which, "--data", str(photos), *small, "--seeds", seeds, "--out", str(out), *more]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def top1(run: Path, protocol: str, step: int, part: str = "metrics") -> float:
    (score,) = [x for x in read_lines(run / "scores.jsonl") if (x["protocol"], x["step"]) == (protocol, step)]
    return float(score[part]["top1"])


def last_logged(run: Path) -> dict[str, Any]:
    return [line for line in read_lines(run / "log.jsonl") if line["event"] == "step"][-1]


def stamps(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("*/**/*") if path.is_file()}
