"""Balanced parts of labelled images, and which are labelled when few are."""

import hashlib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.data import Images, hold_out, label_subset, subsets
from hardpair.data.subsets import OFFICIAL, OfficialList
from hardpair.errors import UserError

some_labels = st.lists(st.integers(0, 5), max_size=120).map(lambda values: torch.tensor(values, dtype=torch.int64))
shares = st.floats(0.01, 0.99)


@settings(deadline=None)
@given(labels=some_labels, share=shares, seed=st.integers(0, 99))
def test_split_is_whole_sorted_and_balanced(labels: torch.Tensor, share: float, seed: int) -> None:
    kept, held = hold_out(labels, share=share, seed=seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    assert kept.tolist() == sorted(kept.tolist())
    assert held.tolist() == sorted(held.tolist())
    for label in set(labels.tolist()):
        count, count_held = int((labels == label).sum()), int((labels[held] == label).sum())
        assert count_held < count, "every class keeps one"
        assert abs(count_held - share * count) <= 1
        assert count_held >= 1 or count == 1


def test_is_determined_by_the_seed() -> None:
    labels = torch.arange(10).repeat(20)
    first, again, other = (hold_out(labels, share=0.2, seed=seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 40


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_refuses_a_share_that_is_none(share: float) -> None:
    with pytest.raises(UserError, match="share"):
        hold_out(torch.tensor([0, 1]), share=share, seed=0)


CLASSES = tuple(f"n{number:08}" for number in range(1000))


def like_imagenet(a_class: int = 3) -> Images:
    labels = torch.arange(1000).repeat_interleave(a_class)
    files = tuple(f"{CLASSES[label]}/{CLASSES[label]}_{k}.JPEG" for label in range(1000) for k in range(a_class))
    return Images(torch.zeros(len(labels), 3, 8, 8, dtype=torch.uint8), labels, CLASSES, "imagenet/train", files=files)


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of one image of every class, served from a folder, as the 1 % list."""
    names = [f"{name}_1.JPEG" for name in reversed(CLASSES)]
    content = "\n".join(names).encode() + b"\n"
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "1percent.txt").write_bytes(content)
    address = (tmp_path / "server").as_uri() + "/"
    made = OfficialList("1percent.txt", hashlib.sha256(content).hexdigest(), len(content), address)
    monkeypatch.setitem(subsets.OFFICIAL, 0.01, made)
    return names


def test_imagenet_uses_the_official_list(official: list[str], tmp_path: Path) -> None:
    images = like_imagenet()
    rows, words = label_subset(images, 0.01, seed=0, root=tmp_path / "data")
    assert sorted(Path(images.files[row]).name for row in rows.tolist()) == sorted(official)
    assert "1percent.txt" in words
    (tmp_path / "server" / "1percent.txt").unlink()
    again, _ = label_subset(images, 0.01, seed=5, root=tmp_path / "data")  # kept, and no seed changes it
    assert torch.equal(rows, again)


def test_a_damaged_list_is_refused(official: list[str], tmp_path: Path) -> None:
    assert official
    (tmp_path / "data" / "imagenet_subsets").mkdir(parents=True)
    (tmp_path / "data" / "imagenet_subsets" / "1percent.txt").write_text("n00000000_1.JPEG\n")
    with pytest.raises(UserError, match=r"1percent.txt: 17 bytes where 17,000 are expected"):
        label_subset(like_imagenet(), 0.01, seed=0, root=tmp_path / "data")


def test_other_file_names_are_refused(official: list[str], tmp_path: Path) -> None:
    assert official
    renamed = like_imagenet(a_class=1)  # only files that end in _0
    with pytest.raises(UserError, match="holds 0 of the 1,000 images"):
        label_subset(renamed, 0.01, seed=0, root=tmp_path / "data")


def test_the_published_sums() -> None:
    assert {share: made.size for share, made in OFFICIAL.items()} == {0.01: 260_323, 0.1: 2_603_168}
    assert OFFICIAL[0.01].sha256.startswith("71e82a48")
    assert OFFICIAL[0.1].sha256.startswith("6d09de11")


@pytest.mark.parametrize(("share", "count"), [(0.01, 5), (0.1, 50), (0.02, 10)])
def test_any_other_set_gets_a_balanced_draw_fixed_by_its_seed(share: float, count: int, tmp_path: Path) -> None:
    labels = torch.arange(500) % 5
    images = Images(torch.zeros(500, 3, 8, 8, dtype=torch.uint8), labels, tuple("abcde"), "five/train")
    rows, _ = label_subset(images, share, seed=0, root=tmp_path)
    assert labels[rows].bincount().tolist() == [count // 5] * 5
    assert torch.equal(rows, label_subset(images, share, seed=0, root=tmp_path)[0])
    assert not torch.equal(rows, label_subset(images, share, seed=1, root=tmp_path)[0])


def test_a_class_of_one_is_labelled_and_too_few_are_refused(tmp_path: Path) -> None:
    labels = torch.cat([torch.zeros(20), torch.tensor([1.0])]).long()
    images = Images(torch.zeros(21, 3, 8, 8, dtype=torch.uint8), labels, ("many", "one"), "odd/train")
    rows, _ = label_subset(images, 0.1, seed=0, root=tmp_path)
    assert labels[rows].bincount().tolist() == [2, 1]
    with pytest.raises(UserError, match=r"labels: 0\.01 of the 20 images of odd/train are too few"):
        label_subset(images.select(torch.arange(20)), 0.01, seed=0, root=tmp_path)


def test_a_part_of_the_official_list_is_called_so(official: list[str], tmp_path: Path) -> None:
    images = like_imagenet()
    most = torch.tensor([row for row, name in enumerate(images.files) if name[:9] < "n00000900"])
    rows, words = label_subset(images.select(most), 0.01, seed=0, root=tmp_path / "data")
    assert len(rows) == 900 < len(official)
    assert words == "900 of the 1,000 images of the official list 1percent.txt"


def test_all_labels(tmp_path: Path) -> None:
    assert len(label_subset(like_imagenet(), 1, seed=0, root=tmp_path)[0]) == 3000
    with pytest.raises(UserError, match="labels"):
        label_subset(like_imagenet(), 1.5, seed=0, root=tmp_path)
