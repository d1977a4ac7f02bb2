"""What keeping freed memory (train/device.py) saves: training steps in two fresh processes, in turns.

python benchmarks/allocator.py
"""

import statistics
import subprocess
import sys

STEPS = """
import sys, tempfile, time, statistics
from pathlib import Path
import torch
from hardpair.data import open_images
from hardpair.recipes import find_recipe
from hardpair.train.device import keep_freed_memory
from hardpair.train.meter import Meter
from hardpair.train.trainer import Trainer
if sys.argv[1] == "kept":
    keep_freed_memory()
images = open_images("sample", "train", size=32, root=Path())
trainer, meter, times = Trainer(find_recipe("demo"), Path(), images, torch.device("cpu"), 10**9), Meter(), []
for _ in range(40):
    began = time.perf_counter()
    trainer._one_step(meter)
    times.append(time.perf_counter() - began)
print(statistics.median(times[5:]))
"""


def main() -> None:
    """Print the ratio of the medians of five turns."""
    times: dict[str, list[float]] = {"returned": [], "kept": []}
    for _ in range(5):
        for name, seconds in times.items():
            done = subprocess.run([sys.executable, "-c", STEPS, name], capture_output=True, text=True, check=True)
            seconds.append(float(done.stdout))
    returned, kept = (statistics.median(seconds) for seconds in times.values())
    print(f"demo step: memory returned {returned * 1e3:.1f} ms, kept {kept * 1e3:.1f} ms, ratio {returned / kept:.2f}")


if __name__ == "__main__":
    main()
