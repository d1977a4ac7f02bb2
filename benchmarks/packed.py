"""Start and memory of a packed set: 10,000 images beside 100,000 of them, 96 px (2.8 GB in a temporary folder).

    python benchmarks/packed.py                                  # --images 20000 --size 32 to see that it works
    python benchmarks/packed.py --folder /fast/disk              # where the set is made, and removed afterwards

Goal: the first batch within 1 s of the process's start beyond what importing torch takes, and memory of the process
itself (without the pages of the map, which all processes share and the system takes back when it wants) that does not
depend on the number of images. Then the same for opening alone, with the names and labels of ImageNet's 1,281,167 files
in front of a sparse file of black pixels.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH, BATCHES, PART = 256, 20, 256
IMAGENET = 1_281_167


def write_set(folder: Path, count: int, size: int, *, sparse: bool = False) -> None:
    """Noise of two classes, packed; every image is another one, and the hashes are true unless it is sparse."""
    import numpy as np
    import torch

    from hardpair.data.fill import publish
    from hardpair.data.journal import DonePart, Heading
    from hardpair.data.layout import Listing
    from hardpair.data.store import VERSION

    folder.mkdir()
    random, parts = np.random.default_rng(0), []
    noise = random.integers(0, 256, (PART, 3, size, size), dtype=np.uint8)
    with (folder / "train.pixels").open("wb") as file:
        if sparse:
            file.truncate(count * 3 * size**2)
        for start in range(0, count, PART):
            images = min(PART, count - start)
            hashes = "".join(f"{start + k:032x}" for k in range(images))
            if sparse:
                parts.append(DonePart(images, {}, "0" * 64, hashes))
                continue
            noise[:, 0, 0, :4] = np.frombuffer(np.uint32(start).tobytes(), np.uint8)
            block = noise[:images].tobytes()
            file.write(block)
            parts.append(DonePart(images, {}, hashlib.sha256(block).hexdigest(), hashes))
    names = [f"n{k % 1000:08}/n{k % 1000:08}_{k}.JPEG" for k in range(count)]
    classes = tuple(f"n{k:08}" for k in range(1000))
    listing = Listing(folder, names, torch.arange(count) % 1000, classes)
    publish(folder, {"train": listing}, {"train": parts}, Heading(VERSION, size, str(folder), "0" * 64))


def measure(folder: Path, size: int, started: float) -> None:
    """In a fresh process: when things were ready, and how much memory it then has, as JSON."""
    marks = {"python": time.time() - started}
    import torch  # noqa: F401 (its time is not ours)

    marks["torch imported"] = time.time() - started
    from hardpair.data import epoch_order, open_images

    images = open_images(str(folder), "train", size=size, root=folder)
    images.facts()
    marks["set opened"] = time.time() - started
    order = epoch_order(len(images), seed=0, epoch=0)
    images.batch(order[:BATCH])
    marks["first batch"] = time.time() - started
    for rows in order[: BATCH * BATCHES].split(BATCH):
        images.batch(rows)
    print(json.dumps({"marks": marks, "memory": memory()}))


def memory() -> dict[str, float]:
    """MB of this process alone, and of mapped files that are in memory now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kinds = {"RssAnon": "own", "RssFile": "mapped files"}
    return {kinds[line.split(":")[0]]: int(line.split()[1]) / 1024 for line in lines if line.split(":")[0] in kinds}


def forget(folder: Path) -> None:
    """Ask the system to drop the set from its memory, so that it is read from the disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def report(name: str, folder: Path, size: int) -> dict[str, dict[str, float]]:
    """What a fresh process finds, printed too."""
    forget(folder)
    words = [sys.executable, __file__, "--measure", str(folder), "--size", str(size), "--started", str(time.time())]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    marks = found["marks"]
    print(f"{name}: seconds from the start of the process")
    print("  " + ", ".join(f"{mark} {seconds:.2f}" for mark, seconds in marks.items()))
    print(f"  beyond the import of torch: {marks['first batch'] - marks['torch imported']:.2f} s to the first batch")
    own, mapped = found["memory"]["own"], found["memory"]["mapped files"]
    print(f"  after {BATCHES} batches of {BATCH}: {own:.0f} MB of its own, {mapped:.0f} MB of mapped files")
    return dict(found)


def main() -> None:
    """Make the sets, measure, remove them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--folder", type=Path, help="where to make the sets; else a temporary folder")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure, options.size, options.started)
        return
    root = Path(tempfile.mkdtemp(prefix="hardpair-packed-", dir=options.folder))
    try:
        from record import record

        found = {}
        for count in (options.images // 10, options.images):
            write_set(root / str(count), count, options.size)
            found[str(count)] = report(f"{count:,} images of {options.size} px", root / str(count), options.size)
        own = [facts["memory"]["own"] for facts in found.values()]
        print(f"ten times the images: {own[1] / own[0]:.3f} of the memory ({own[1] - own[0]:+.1f} MB)")
        write_set(root / "imagenet", IMAGENET, options.size, sparse=True)
        name = f"{IMAGENET:,} images of {options.size} px, none of them real"
        found[str(IMAGENET)] = report(name, root / "imagenet", options.size)
        record("packed", {"size": options.size, "seconds_and_megabytes": found})
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
