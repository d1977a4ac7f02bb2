"""Sweeps small enough for tests, and how to read what they left."""

import json
from pathlib import Path
from typing import Any

METHODS = ("hnpm", "simclr")
STEPS = 6  # per epoch of an ablation: 300 images in batches of 50
END = 2 * STEPS
SEEDS = {"mining": 2, "gradient": 1, "tau": 1}
SMALL = ["--width", ".0625", "--image-size", "8"]


def compare_words(photos: Path, out: Path, *more: str) -> list[str]:
    small = [*SMALL, "--batch-size", "25", "--budget", "1", "--seeds", "2"]
    return ["--methods", ",".join(METHODS), "--data", str(photos), *small, "--out", str(out), *more]


def ablate_words(which: str, photos: Path, out: Path, *more: str) -> list[str]:
    small = [*SMALL, "--batch-size", "50", "--epochs", "2", "--seeds", str(SEEDS.get(which, 1))]
    return [which, "--data", str(photos), *small, "--out", str(out), *more]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def top1(run: Path, protocol: str, step: int | None = None, part: str = "metrics") -> float:
    (score,) = [
        line
        for line in read_lines(run / "scores.jsonl")
        if line["protocol"] == protocol and step in (None, line["step"])
    ]
    return float(score[part]["top1"])


def logged(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_lines(run / "log.jsonl") if line["event"] == "step"]


def stamps(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("*/**/*") if path.is_file()}
