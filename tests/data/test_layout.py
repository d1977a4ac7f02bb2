from collections.abc import Callable
from pathlib import Path

import pytest

from hardpair.data.images import Split
from hardpair.data.layout import Listing, list_split, why_unlabelled
from hardpair.errors import UserError

Touch = Callable[..., None]


@pytest.fixture
def touch(root: Path) -> Touch:
    """Listing looks at names only, so empty files do."""

    def write(*names: str) -> None:
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()

    return write


def labels_of(listing: Listing) -> list[int]:
    assert listing.labels is not None
    return listing.labels.tolist()


def test_flat_folder_is_unlabelled_sorted_and_free_of_other_files(root: Path, touch: Touch) -> None:
    touch("c.PNG", "b.JpEg", "a.bmp", "d.webp", "notes.txt", "e.gif", ".hidden.jpg", ".git/f.jpg", "deep/er/g.jpg")
    listing = list_split(root, "train")
    assert listing.names == ["a.bmp", "b.JpEg", "c.PNG", "d.webp", "deep/er/g.jpg", "e.gif"]
    assert listing.labels is None
    assert listing.classes == ()


def test_one_sub_folder_is_no_class(root: Path, touch: Touch) -> None:
    touch("only/a.jpg", "only/b.jpg")
    assert list_split(root, "train").labels is None


def test_an_image_beside_the_classes_makes_all_unlabelled(root: Path, touch: Touch) -> None:
    touch("cat/a.jpg", "dog/a.jpg", "stray.jpg")
    assert list_split(root, "train").labels is None


def test_train_and_test_folders(root: Path, touch: Touch) -> None:
    touch("train/dog/a.jpg", "train/cat/b.jpg", "train/cat/deep/c.jpg", "test/dog/d.jpg")
    train, test = list_split(root, "train"), list_split(root, "test")
    assert train.names == ["cat/b.jpg", "cat/deep/c.jpg", "dog/a.jpg"]
    assert labels_of(train) == [0, 0, 1]
    assert train.classes == test.classes == ("cat", "dog")
    assert labels_of(test) == [1], "labels are numbered as in training"


@pytest.mark.parametrize("name", ["test", "val", "valid", "validation", "VAL"])
def test_names_of_the_test_folder(root: Path, touch: Touch, name: str) -> None:
    touch("Train/a.jpg", f"{name}/b.jpg")
    assert list_split(root, "test").names == ["b.jpg"]
    assert list_split(root, "train").names == ["a.jpg"]


def test_test_comes_before_val(root: Path, touch: Touch) -> None:
    touch("train/a.jpg", "val/v.jpg", "test/t.jpg")
    assert list_split(root, "test").names == ["t.jpg"]


def test_a_test_folder_without_classes_gives_way_to_one_with(root: Path, touch: Touch) -> None:
    touch("train/cat/a.jpg", "train/dog/a.jpg", "test/t.jpg", "valid/dog/v.jpg", "val/u.jpg")
    assert list_split(root, "test").names == ["dog/v.jpg"]
    touch("test/cat/t.jpg")
    assert list_split(root, "test").names == ["cat/t.jpg", "t.jpg"], "a stray picture is to be fixed, not hidden"


def test_of_test_folders_without_classes_the_first_counts(root: Path, touch: Touch) -> None:
    touch("train/cat/a.jpg", "train/dog/a.jpg", "test/t.jpg", "val/v.jpg")
    assert list_split(root, "test").names == ["t.jpg"]
    touch("train/stray.jpg", "val/dog/v.jpg")
    assert list_split(root, "test").names == ["t.jpg"], "without labels to train with, none are looked for"


def test_pictures_beside_the_classes_are_named(root: Path, touch: Touch) -> None:
    touch("cat/a.jpg", "dog/a.jpg", "stray.jpg")
    with pytest.raises(UserError, match=r"beside the folders of classes: stray\.jpg\)$"):
        list_split(root, "test")
    touch("zebra.jpg")
    with pytest.raises(UserError, match=r"beside the folders of classes: stray\.jpg and 1 more\)$"):
        list_split(root, "test")
    assert [why_unlabelled(names) for names in (["a.jpg"], ["a.jpg", "b/c.jpg"], ["b/c.jpg", "d/e.jpg"])] == [""] * 3


def test_one_folder_is_not_two_classes(root: Path, touch: Touch) -> None:
    touch("cats/a.jpg", "cats/b.jpg")
    with pytest.raises(UserError, match=r"one folder is not two classes.*cats/"):
        list_split(root, "test")


def test_train_without_test_says_what_is_missing(root: Path, touch: Touch) -> None:
    touch("train/a.jpg")
    with pytest.raises(UserError, match="test/, val/"):
        list_split(root, "test")


def test_class_that_training_never_saw(root: Path, touch: Touch) -> None:
    touch("train/cat/a.jpg", "train/dog/a.jpg", "test/cow/a.jpg")
    with pytest.raises(UserError, match="cow"):
        list_split(root, "test")


def test_labelled_folder_is_divided_without_overlap(root: Path, touch: Touch) -> None:
    touch(*(f"{kind}/{k}.jpg" for kind in ("cat", "cow", "dog") for k in range(10)))
    train, test = list_split(root, "train"), list_split(root, "test")
    assert len(train.names) == 24
    assert not set(train.names) & set(test.names)
    assert labels_of(test) == [0, 0, 1, 1, 2, 2]
    assert [name.split("/")[0] for name in test.names] == [test.classes[label] for label in labels_of(test)]
    assert list_split(root, "test").names == test.names


def test_unlabelled_folder_has_no_test_split(root: Path, touch: Touch) -> None:
    touch("a.jpg", "b.jpg")
    with pytest.raises(UserError, match="needs folders train/ and test/"):
        list_split(root, "test")


def test_classes_of_one_leave_nothing_to_hold_out(root: Path, touch: Touch) -> None:
    touch("cat/a.jpg", "dog/a.jpg")
    assert len(list_split(root, "train").names) == 2
    with pytest.raises(UserError, match="no class has two images"):
        list_split(root, "test")


@pytest.mark.parametrize("split", ["train", "test"])
def test_missing_empty_and_file(root: Path, split: Split) -> None:
    (root / "notes.md").touch()
    cases = {root / "gone": "no such folder", root / "notes.md": "is a file", root: "holds no images"}
    for path, words in cases.items():
        with pytest.raises(UserError, match=words) as caught:
            list_split(path, split)
        assert "\n" not in str(caught.value)


def test_links_are_followed_once(root: Path, touch: Touch, tmp_path: Path) -> None:
    touch("a.jpg")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.jpg").touch()
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)
    assert list_split(root, "train").names == ["a.jpg", "linked/b.jpg"]


def test_a_class_of_trains_is_no_split(root: Path, touch: Touch) -> None:
    touch("train/a.jpg", "train/b.jpg", "car/a.jpg", "car/b.jpg", "plane/a.jpg", "plane/b.jpg")
    assert list_split(root, "train").classes == ("car", "plane", "train")
