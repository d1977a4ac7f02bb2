"""The seven transfer sets, in small but in their official layouts."""

import ast
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_layouts import WRITERS, Small, seen, write_cars, write_cifar10, write_pets, write_sun397, write_voc2007

import hardpair.data.transfer
from hardpair.data import Images
from hardpair.data.transfer import TRANSFER_SETS, TransferSplit, hold_out_number, open_transfer
from hardpair.data.transfer.lists import VOC_CLASSES
from hardpair.errors import UserError

SPLITS: tuple[TransferSplit, ...] = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def _small_flowers(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision knows the two lists of Flowers by hash, and small ones are others."""
    monkeypatch.setattr("torchvision.datasets.flowers102.check_integrity", lambda path, _: Path(path).is_file())


def read(name: str, split: TransferSplit, made: Small, root: Path, size: int = 12) -> Images:
    return open_transfer(name, split, size=size, root=root, wanted=made.wanted)


def test_numbers_are_those_of_the_protocol() -> None:
    assert list(TRANSFER_SETS) == ["food101", "cifar10", "sun397", "cars", "pets", "voc2007", "flowers102"]
    assert [(one.train + one.validation, one.test) for one in TRANSFER_SETS.values()] == [
        (75_750, 25_250),
        (50_000, 10_000),
        (19_850, 19_850),
        (8_144, 8_041),
        (3_680, 3_669),
        (5_011, 4_952),
        (2_040, 6_149),
    ]
    a_class = {name: one.validation / one.classes for name, one in TRANSFER_SETS.items()}
    assert [a_class[name] for name in ("food101", "cifar10", "sun397", "pets", "flowers102")] == [75, 500, 10, 20, 10]
    metrics = ["top1", "top1", "top1", "top1", "mean_per_class", "map11", "mean_per_class"]
    assert [one.metric for one in TRANSFER_SETS.values()] == metrics


@pytest.mark.parametrize("name", TRANSFER_SETS)
def test_every_image_is_in_its_split_with_its_label(name: str, root: Path) -> None:
    made = WRITERS[name](root)
    images = {split: read(name, split, made, root) for split in SPLITS}
    numbers = {split: seen(images[split]) for split in SPLITS}
    assert {split: len(images[split]) for split in SPLITS} == {split: made.wanted.count(split) for split in SPLITS}
    assert not numbers["train"].keys() & numbers["validation"].keys()
    assert numbers["train"] | numbers["validation"] == made.truth["train"] | made.truth.get("validation", {})
    assert numbers["validation"] == made.truth.get("validation", numbers["validation"])
    assert numbers["test"] == made.truth["test"]
    assert {(image.pixels.shape[1:], len(image.classes)) for image in images.values()} == {
        ((3, 12, 12), made.wanted.classes)
    }
    assert [image.name for image in images.values()] == [f"{name}/{split}" for split in SPLITS]
    assert images["train"].pixels.dtype == torch.uint8


@pytest.mark.parametrize("name", TRANSFER_SETS)
def test_training_and_validation_are_opened_as_one(name: str, root: Path, cache: Path) -> None:
    """Mapped from a file of the cache: together they need not fit in memory."""
    made = WRITERS[name](root)
    both = read(name, "train+validation", made, root, size=16)
    assert both.name == f"{name}/train+validation"
    assert len(both) == made.wanted.train + made.wanted.validation
    assert seen(both) == made.truth["train"] | made.truth.get("validation", {})
    assert both.rows is None
    blocks = list(cache.rglob("*.pixels"))
    assert len(blocks) == 1, "nothing else was decoded"
    assert blocks[0].stat().st_size == both.block.numel()
    assert torch.equal(read(name, "train+validation", made, root, size=16).block, both.block)
    assert list(cache.rglob("*.pixels")) == blocks


@pytest.mark.parametrize(("name", "each"), [("food101", [1] * 3), ("cifar10", [2] * 10), ("cars", [1, 2, 1])])
def test_validation_is_balanced(name: str, each: list[int], root: Path) -> None:
    made = WRITERS[name](root)
    labels = read(name, "validation", made, root).labels
    assert labels is not None
    assert labels.bincount().tolist() == each


def test_what_is_held_out_hangs_on_the_names_alone(root: Path, tmp_path: Path) -> None:
    made, other = write_pets(root), write_pets(tmp_path / "other")
    lists = other.folder / "annotations" / "trainval.txt"
    lists.write_text("\r\n".join(reversed(lists.read_text().splitlines())))
    assert seen(read("pets", "validation", made, root)) == seen(read("pets", "validation", other, tmp_path / "other"))


@pytest.mark.parametrize("lists", ["", "Partitions/"])
def test_lists_of_sun397_may_lie_in_either_place(lists: str, root: Path) -> None:
    made = write_sun397(root, lists)
    (made.folder / "ClassName.txt").rename(made.folder / lists / "ClassName.txt")
    images = read("sun397", "test", made, root)
    assert seen(images) == made.truth["test"]
    assert images.classes == ("abbey", "apartment_building/outdoor", "youth_hostel")


def test_class_names(root: Path) -> None:
    assert read("pets", "test", write_pets(root), root).classes[1] == "american bulldog"
    assert read("cars", "test", write_cars(root), root).classes[2] == "smart fortwo 2012"
    assert read("voc2007", "test", write_voc2007(root), root).classes == tuple(sorted(VOC_CLASSES))


def test_a_broken_training_image_is_skipped_and_a_broken_test_image_refused(root: Path) -> None:
    made = write_pets(root)
    train = seen(read("pets", "train", made, root))
    number = min(train)
    made.files[number].write_bytes(b"rubbish")
    images = read("pets", "train", made, root)
    del train[number]
    assert seen(images) == train
    assert [line.split(":")[0] for line in images.skipped] == [f"images/{made.files[number].name}"]
    broken = made.files[min(made.truth["test"])]
    broken.write_bytes(b"")
    for _ in ("decoded", "from the cache"):
        with pytest.raises(UserError, match=rf"1 of 9 files cannot be used; fix them.*{broken.name}"):
            read("pets", "test", made, root)


def test_cifar10_is_enlarged_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_cifar10(root)
    first = {split: read("cifar10", split, made, root, size=40).pixels.clone() for split in SPLITS}
    monkeypatch.setattr("hardpair.data.images.functional", None)
    for split in SPLITS:
        assert torch.equal(read("cifar10", split, made, root, size=40).pixels, first[split])
    assert len(read("cifar10", "train", made, root, size=32)) == 80


def test_unknown_name_and_size(root: Path) -> None:
    with pytest.raises(UserError, match="did you mean flowers102"):
        open_transfer("flowers", "test", size=32, root=root)
    with pytest.raises(UserError, match="size: must be at least 8, not 7"):
        open_transfer("pets", "test", size=7, root=root)


def test_torchvision_is_imported_only_when_it_is_needed() -> None:
    for file in Path(hardpair.data.transfer.__file__).parent.glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("torchvision") for name in names), file


sizes_of_classes = st.lists(st.integers(8, 30), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(sizes=sizes_of_classes, share=st.floats(0, 0.2), seed=st.integers(0, 9), shuffle=st.randoms())
def test_exactly_so_many_and_equally_many_of_each_class(sizes: list[int], share: float, seed: int, shuffle) -> None:
    values = [2 * label for label, size in enumerate(sizes) for _ in range(size)]  # labels need not be dense
    shuffle.shuffle(values)
    labels, total = torch.tensor(values), int(share * len(values))
    kept, held = hold_out_number(labels, total=total, seed=seed)
    assert len(held) == total
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    assert held.tolist() == sorted(held.tolist())
    counts = labels[held].bincount(minlength=2 * len(sizes))[::2].tolist()
    assert max(counts) - min(counts) <= 1
    assert all(sizes[a] >= sizes[b] for a in range(len(sizes)) for b in range(len(sizes)) if counts[a] > counts[b]), (
        "the larger classes give more"
    )


def test_is_determined_by_the_seed() -> None:
    labels = torch.arange(10).repeat(20)
    first, again, other = (hold_out_number(labels, total=40, seed=seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_cars_holds_out_what_the_protocol_says() -> None:
    sizes = torch.full((196,), 41)
    sizes[: 8_144 - 196 * 41] += 1  # 8,144 training images, as in the real set
    labels = torch.arange(196).repeat_interleave(sizes)
    kept, held = hold_out_number(labels, total=1_650, seed=0)
    assert (len(kept), len(held)) == (6_494, 1_650)
    assert labels[held].bincount().bincount().tolist() == [0] * 8 + [114, 82]
