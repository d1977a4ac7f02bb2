import hashlib
from importlib.resources import files

import pytest
import torch

from hardpair.data.images import Split
from hardpair.data.sample import cut_sheet, make_sheet, read_sample, sample_facts


@pytest.mark.parametrize(("split", "count"), [("train", 5000), ("test", 1000)])
def test_sample_is_what_its_json_says(split: Split, count: int) -> None:
    images, facts = read_sample(split), sample_facts()["splits"][split]
    assert images.pixels.shape == (count, 3, 32, 32)
    assert images.labels is not None
    assert images.labels.bincount().tolist() == [count // 10] * 10
    assert images.labels.tolist() == sorted(images.labels.tolist())
    assert hashlib.sha256(images.pixels.numpy().tobytes()).hexdigest() == facts["pixels_sha256"]
    assert len(set(facts["index"])) == facts["count"] == count
    assert 0 <= min(facts["index"]) <= max(facts["index"]) < 10 * count
    assert images.name == f"sample/{split}"
    assert len(images.classes) == 10


def test_sample_has_no_image_twice() -> None:
    pixels = torch.cat([read_sample("train").pixels, read_sample("test").pixels])
    assert len({image.numpy().tobytes() for image in pixels}) == 6000


def test_sample_is_small() -> None:
    folder = files("hardpair.data") / "sample"
    assert sum(len((folder / name).read_bytes()) for name in ("train.webp", "test.webp")) <= 16_000_000


def test_sheet_and_cut_are_inverse() -> None:
    pixels = torch.randint(0, 256, (200, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    sheet = make_sheet(pixels)
    assert sheet.size == (3200, 64)
    assert torch.equal(cut_sheet(sheet), pixels)
