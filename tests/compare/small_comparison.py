"""A comparison small enough for tests, and how to read what it left."""

import json
from pathlib import Path
from typing import Any

METHODS = ("hnpm", "simclr")


def words(photos: Path, out: Path, *more: str) -> list[str]:
    small = ["--width", ".0625", "--image-size", "8", "--batch-size", "25", "--budget", "1", "--seeds", "2"]
    return ["--methods", ",".join(METHODS), "--data", str(photos), *small, "--out", str(out), *more]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def scores(run: Path, protocol: str) -> dict[str, float]:
    (score,) = [line for line in read_lines(run / "scores.jsonl") if line["protocol"] == protocol]
    return {"top1": score["metrics"]["top1"], "control": score["control"]["top1"]}


def stamps(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("*/**/*") if path.is_file()}
