"""Make the bundled sample from CIFAR-10: `python scripts/make_sample.py data`, where data/cifar-10-batches-bin lies."""

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from hardpair.data.cifar10 import ARCHIVE, FOLDER, Source, read_cifar10
from hardpair.data.images import Images, Split
from hardpair.data.sample import cut_sheet, make_sheet

TARGET = Path(__file__).parents[1] / "src" / "hardpair" / "data" / "sample"
PER_CLASS: dict[Split, int] = {"train": 500, "test": 100}
SEED = 0
MOST_BYTES = 16_000_000  # of the two sheets together
FILES_SHA256 = {  # of the files in the official archive, so that an archive packed by someone else cannot slip in
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"  # of the archive
CITATION = "Alex Krizhevsky. Learning Multiple Layers of Features from Tiny Images. Technical report, 2009."


def check_files(folder: Path) -> None:
    """Stop unless every file is, bit for bit, the official one."""
    for name, sha256 in FILES_SHA256.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != sha256:
            raise SystemExit(f"{folder / name}: not the official file")


def pick(images: Images, per_class: int) -> list[int]:
    """Indices in the official order, sorted by class and then by index."""
    draw = random.Random(SEED)
    assert images.labels is not None
    rows = [(images.labels == label).nonzero().flatten().tolist() for label in range(len(images.classes))]
    return [index for of_class in rows for index in sorted(draw.sample(of_class, per_class))]


def write_split(root: Path, split: Split) -> dict[str, Any]:
    """Write one sheet, read it back, and return what sample.json says of it."""
    images = read_cifar10(root, split)
    index = pick(images, PER_CLASS[split])
    pixels = images.pixels[torch.tensor(index)]
    path = TARGET / f"{split}.webp"
    make_sheet(pixels).save(path, lossless=True, quality=100, method=6)
    if not torch.equal(cut_sheet(Image.open(path)), pixels):
        raise SystemExit(f"{path}: the sheet does not give back the pixels it was made of")
    sha256 = hashlib.sha256(pixels.numpy().tobytes()).hexdigest()
    return {"count": len(index), "per_class": PER_CLASS[split], "pixels_sha256": sha256, "index": index}


def main() -> None:
    """Write both sheets and sample.json."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python scripts/make_sample.py DIR")
    root = Path(sys.argv[1])
    check_files(root / FOLDER)
    TARGET.mkdir(parents=True, exist_ok=True)
    splits = {split: write_split(root, split) for split in PER_CLASS}
    size = sum((TARGET / f"{split}.webp").stat().st_size for split in splits)
    if size > MOST_BYTES:
        raise SystemExit(f"the sheets have {size:,} bytes, more than {MOST_BYTES:,}")
    source = {"archive": ARCHIVE, "sha256": Source().sha256, "md5": MD5, "files_sha256": FILES_SHA256}
    facts = {
        "citation": CITATION,
        "source": source,
        "seed": SEED,
        "classes": read_cifar10(root, "test").classes,
        "splits": splits,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()]
    (TARGET / "sample.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{size:,} bytes in {TARGET.name}/")


if __name__ == "__main__":
    main()
