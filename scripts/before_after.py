"""What users wait for, with the code of two source trees, in turns: python scripts/before_after.py OLD/src NEW/src.

Each wait is a command as a user types it, in a fresh process. The two trees take turns, so that both see the same
moods of the machine. Prints the median seconds of each, and the median of the ratios of neighbouring turns.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DECODE = """
import sys
from pathlib import Path
from hardpair.data import open_images
open_images(sys.argv[1], "train", size=96, root=Path())
"""
WAITS = {
    "help of hardpair": "--help",
    "help of pretrain": "pretrain --help",
    "a folder of photos, decoded at 96 px": "decode {photos}",
    "two epochs of the demo": "pretrain demo --epochs 2",
    "two epochs of the demo, one thread": "pretrain demo --epochs 2 --threads 1",
    "evaluate, knn and linear": "evaluate {trained}",
    "report": "report {trained}",
}


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs=2, type=Path)
    parser.add_argument("--photos", type=Path, help="a folder of photos; without it that wait is left out")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    waits = {name: words for name, words in WAITS.items() if options.photos or "{photos}" not in words}
    with tempfile.TemporaryDirectory() as folder:
        work, seconds = Path(folder), {name: ([], []) for name in waits}
        for side, tree in enumerate(options.trees):
            run(tree, f"pretrain demo --epochs 2 --run {work / str(side)}", work)
        for _ in range(options.turns):
            for name, words in waits.items():
                for side, tree in enumerate(options.trees):
                    command = words.format(photos=options.photos, trained=work / str(side))
                    seconds[name][side].append(run(tree, command, work))
    print("| wait | before, s | after, s | after ÷ before |\n|---|---:|---:|---:|")
    for name, (before, after) in seconds.items():
        ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
        print(f"| {name} | {statistics.median(before):.2f} | {statistics.median(after):.2f} | {ratio:.2f} |")


def run(tree: Path, command: str, work: Path) -> float:
    """Seconds of a command; nothing is cached from the one before."""
    fresh = work / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "HARDPAIR_CACHE": str(fresh / "cache")}
    words = command.split()
    if words[0] == "pretrain" and "--run" not in words and "--help" not in words:
        words += ["--run", str(fresh / "run")]
    start = ["-c", DECODE, words[1]] if words[0] == "decode" else ["-m", "hardpair", *words]
    began = time.perf_counter()
    subprocess.run([sys.executable, *start], env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
