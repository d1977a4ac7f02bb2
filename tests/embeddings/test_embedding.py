"""What `hardpair embed` writes is read again as it was written, and nothing else is."""

import os

import numpy as np
import pytest
from make_embedding import blobs, make_embedding

from hardpair.embeddings.embedding import open_embedding
from hardpair.errors import UserError


def test_columns_are_those_written(tmp_path):
    vectors, _ = blobs(7, 4, 2)
    names = [f"é{row}.png" for row in range(7)]
    made = make_embedding(tmp_path, vectors, files=names, labels=[None, *"abbaab"], splits=["train"] * 4 + ["test"] * 3)
    assert made.files == tuple(names)
    assert [made.label(row) for row in range(7)] == [None, *"abbaab"]
    assert made.classes == ("a", "b")
    assert made.splits == ("train",) * 4 + ("test",) * 3
    assert np.array_equal(made.vectors, vectors)
    np.testing.assert_allclose(np.linalg.norm(made.unit_vectors(), axis=1), 1, rtol=1e-6)


def test_a_vector_that_is_not_finite_is_refused(tmp_path):
    vectors, _ = blobs(7, 4, 2)
    vectors[3, 1] = np.nan
    with pytest.raises(UserError, match=r"vectors\.npy: .*row 3 "):
        make_embedding(tmp_path, vectors)


@pytest.mark.parametrize("place", [100, -4], ids=["header", "last value"])
def test_vectors_of_something_else_are_refused(tmp_path, place):
    make_embedding(tmp_path, blobs(7, 4, 2)[0])
    content = bytearray((tmp_path / "vectors.npy").read_bytes())
    content[place] = ord("\t") if place > 0 else content[place] ^ 1  # both still read as an array of finite values
    (tmp_path / "vectors.npy").write_bytes(content)
    assert np.isfinite(np.load(tmp_path / "vectors.npy")).all()
    with pytest.raises(UserError, match=r"vectors\.npy: .*by its hash.*embed the images again"):
        open_embedding(tmp_path)


@pytest.mark.parametrize("name", ["vectors.npy", "images.jsonl", "manifest.json"])
@pytest.mark.parametrize("there", ["nothing", "a pipe", "a folder"])
def test_what_is_no_plain_file_is_not_waited_for(tmp_path, name, there):
    make_embedding(tmp_path, blobs(5, 4, 2)[0])
    (tmp_path / name).unlink()
    if there != "nothing":
        (os.mkfifo if there == "a pipe" else os.mkdir)(tmp_path / name)
    with pytest.raises(UserError):
        open_embedding(tmp_path)


@pytest.mark.parametrize("name", ["vectors.npy", "images.jsonl", "manifest.json"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_file_cut_short_is_named(tmp_path, name, share):
    make_embedding(tmp_path, blobs(50, 4, 2)[0])
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match=name):
        open_embedding(tmp_path)
