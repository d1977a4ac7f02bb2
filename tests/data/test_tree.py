"""A list of files stands for a folder that has these files and no others."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardpair.data import open_images
from hardpair.data.layout import list_split, list_whole
from hardpair.errors import UserError


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def write_list(file, names, end="\n"):
    file.write_bytes(b"".join(os.fsencode(f"{name}{end}") for name in names))
    return file


FILES = [
    *(f"{split}/{kind}/{row}.jpg" for split in ("train", "val") for kind in ("cat", "cow", "dog") for row in range(4)),
    *(f"flat/{kind}/{row}.jpg" for kind in ("train", "car", "plane") for row in range(5)),
    *(f"loose/{row}.jpg" for row in range(3)),
    "loose/deep/er/a.jpg",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("listed")
    touch(root, *FILES)
    return root


def same(one, other):
    assert one.root == other.root
    assert one.names == other.names
    assert one.classes == other.classes
    assert (one.labels is None) == (other.labels is None)
    assert one.labels is None or one.labels.tolist() == other.labels.tolist()


@pytest.mark.parametrize("below", ["", "train", "flat", "loose"])
@pytest.mark.parametrize("form", ["relative", "absolute", "crooked"])
def test_a_list_of_all_files_is_the_folder(root, below, form):
    names = [name for name in FILES if name.startswith(below) and (below or name.startswith(("train", "val")))]
    whole = root / below
    if not below:  # a folder with splits, and nothing beside them
        whole = root / "only"
        touch(whole, *names)
        names = [f"only/{name}" for name in names]
    written = {
        "relative": names,
        "absolute": [root / name for name in names],
        "crooked": [f"./x/../{n}" for n in names],
    }
    file = write_list(root / "list.txt", [*reversed([str(name) for name in written[form]]), "", names[0]])
    assert list_whole(file)[0] == whole
    for (split, one), (other_split, other) in zip(list_whole(file)[1], list_whole(whole)[1], strict=True):
        assert split == other_split
        same(one, other)
    for split in ("train", "test"):
        if below == "loose" and split == "test":
            with pytest.raises(UserError, match="loose: a test split needs"):
                list_split(file, split)
            continue
        same(list_split(file, split), list_split(whole, split))


@given(chosen=st.sets(st.sampled_from([name for name in FILES if name.startswith("train")]), min_size=1))
def test_labels_are_the_folders_below_what_the_files_share(root, chosen):
    [(split, listing)] = list_whole(write_list(root / "some.txt", sorted(chosen)))[1]
    assert split == ""
    assert {(listing.root / name).relative_to(root).as_posix() for name in listing.names} == chosen
    kinds = sorted({name.split("/")[1] for name in chosen})
    assert listing.classes == (tuple(kinds) if len(kinds) > 1 else ())


def test_names_that_are_not_text_and_ends_of_lines_of_windows(tmp_path):
    names = [os.fsdecode(b"caf\xe9.jpg"), "a b.jpg", " space .jpg", "☃.png"]
    touch(tmp_path, *names)
    file = write_list(tmp_path / "keep.lst", names, end="\r\n")
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert list_split(file, "train").names == sorted(names)


def test_the_line_of_a_file_that_is_not_there(root):
    file = write_list(root / "lost.txt", ["loose/0.jpg", "", "loose/gone.jpg", "loose/1.jpg", "loose/lost.jpg"])
    with pytest.raises(UserError, match=r"lost\.txt: line 3: .*gone\.jpg, and 1 more"):
        list_split(file, "train")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "names no files"),
        (b"\n \n", "names no files"),
        (b"loose\n", "line 1: there is no file"),
        (b"loose/0.jpg\n\0\n", "line 2: is no name"),
        (b"loose/0.jpg\n" + b"x" * 5000, "line 2: is no name"),
        (b"\n../../../../../../../gone\x1b[31m.jpg", "line 2: there is no file"),
    ],
)
def test_lists_that_cannot_be_used(root, content, words):
    (root / "odd.txt").write_bytes(content)
    with pytest.raises(UserError, match=words) as caught:
        list_whole(root / "odd.txt")
    assert str(caught.value).isprintable()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match=r"pipe\.txt"):
        list_split(tmp_path / "pipe.txt", "train")


@pytest.fixture
def keep(tmp_path):
    """Two classes of six noise pictures, of which the list has five each."""
    from PIL import Image

    random = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for row in range(6):
            pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{row}.png")
    return write_list(
        tmp_path / "keep.txt", [f"photos/{kind}/{row}.png" for kind in ("cat", "dog") for row in range(5)]
    )


def test_a_packed_list_has_the_images_of_the_list(keep, tmp_path):
    from hardpair.data.pack import pack

    index = pack(keep, tmp_path / "packed", 8)
    assert (index.splits["train"].images, index.splits["test"].images) == (8, 2)
    for split in ("train", "test"):
        plain = open_images(str(keep), split, size=8, root=Path())
        packed = open_images(str(tmp_path / "packed"), split, size=8, root=Path())
        assert packed.files == plain.files
        assert torch.equal(packed.pixels, plain.pixels)
        assert torch.equal(packed.labels, plain.labels)


def test_training_on_a_list_is_training_on_a_folder_of_these_files(keep, small_recipe, tmp_path):
    from hardpair.train import pretrain

    (tmp_path / "photos/cat/5.png").unlink()
    (tmp_path / "photos/dog/5.png").unlink()
    for name, data in {"list": keep, "folder": tmp_path / "photos"}.items():
        recipe = dataclasses.replace(small_recipe, data=str(data), epochs=1, batch_size=4, image_size=16)
        pretrain(recipe, tmp_path / name)
    one, other = (tmp_path / name / "encoder.safetensors" for name in ("list", "folder"))
    assert one.read_bytes() == other.read_bytes()


def test_a_lost_line_is_one_line_of_the_command(keep, hardpair):
    keep.write_text(keep.read_text() + "photos/gone.png\n")
    done = hardpair("pack", "keep.txt", "packed", "--size", "8")
    assert done.returncode == 2
    assert done.stderr.startswith("hardpair: keep.txt: line 11: ")
    assert done.stderr.count("\n") == 1
