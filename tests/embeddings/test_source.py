"""The images of an embedding are found from everywhere, and what is not read is named."""

import logging

import numpy as np
import pytest
import torch
from make_embedding import write_pictures

import hardpair as hp
from hardpair.data.pack import pack
from hardpair.embeddings.source import open_again, open_source
from hardpair.errors import UserError

NAMES = [f"{split}/{kind}/{row}.png" for split in ("train", "val") for kind in ("cat", "dog") for row in range(3)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder in which images are embedded by relative paths."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(source):
    part = source.part(0, len(source))
    return part.pixels, [(known["filename"], known.get("label"), known.get("split", "")) for known in part.facts]


def test_a_packed_set_by_a_relative_path_is_found_from_elsewhere(here, finished_run, monkeypatch, caplog):
    few = ["train/cat/0.png", "train/dog/0.png", "val/cat/1.png"]  # a map of more would take seconds
    pack(write_pictures(here / "photos", few), here / "pk", 32)
    hp.embed(finished_run, "pk", out="emb", threads=1)
    monkeypatch.chdir(here / "elsewhere")
    page = here / "page.html"

    def count_pictures(**options):
        caplog.clear()
        counts = []
        for verb, more in ((hp.search, ["cat/1.png"]), (hp.select, [])):
            verb("../emb", *more, page=page, threads=1, **options)
            counts.append(page.read_text().count("<img"))
        hp.map("../emb", out=page, threads=1, **options)
        return [*counts, "This page holds a small picture of each." in page.read_text()]

    found = count_pictures()
    assert found == [3, 2, True]
    (here / "pk").rename(here / "moved")
    assert count_pictures() == [0, 0, False]
    assert len(caplog.messages) == 3
    assert all("packed set; say with --images" in message for message in caplog.messages)
    assert count_pictures(images="../moved") == found
    pack(here / "photos/train", here / "pk", 32)
    count_pictures()
    assert all("has 2 images where ../emb has 3" in message for message in caplog.messages)


def test_the_images_of_an_embedding_and_no_others_are_opened_again(here, finished_run, monkeypatch):
    write_pictures(here / "photos", [*NAMES, "train/cat/new.png"])
    (here / "keep.txt").write_text("".join(f"photos/{name}\n" for name in NAMES))
    made = hp.embed(finished_run, "keep.txt", out="emb", threads=1)
    expected = read(open_source("keep.txt", size=made.manifest["encoder"]["square"], least=1, data_root=here))
    (here / "photos").rename(here / "moved")
    monkeypatch.chdir(here / "elsewhere")
    pixels, facts = read(open_again(made, root=here / "moved", data_root=here))
    assert facts == expected[1]
    assert torch.equal(pixels, expected[0])
    assert [name for name, _, _ in facts] == list(made.files)


@pytest.mark.parametrize("field", ["images", "pictures"])
def test_a_word_that_names_nothing_is_named_by_its_field(field):
    with pytest.raises(UserError, match=f"^{field}: 'nope' is unknown"):
        open_source("nope", size=32, least=32, data_root=None, field=field)


def test_gifs_are_read_and_pictures_of_other_kinds_are_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    write_pictures(tmp_path, ["a.gif", "b.GIF", "c.png", "d.tiff", "e/f.TIFF", "e/g.tif", ".h.tif"])
    pixels, facts = read(open_source(str(tmp_path), size=32, least=32, data_root=tmp_path))
    assert [name for name, _, _ in facts] == ["a.gif", "b.GIF", "c.png"]
    assert len(np.unique(pixels.numpy(), axis=0)) == 3
    [said] = caplog.messages
    assert said.startswith(f"{tmp_path}: 1 .tif file, 2 .tiff files left out")
