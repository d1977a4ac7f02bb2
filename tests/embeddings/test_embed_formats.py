"""What other programs read is what the embedding holds."""

import csv
import functools
import hashlib
import json
import shutil
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from make_embedding import blobs, make_embedding

from hardpair.embeddings.embedding import open_embedding
from hardpair.embeddings.formats import require_format, write_format
from hardpair.errors import UserError

ODD = ["a,b.png", 'quo"te.png', "new\nline.png", "<b>.png", "☃.png", "lat\udce9.png"]
READABLE = [*ODD[:-1], "lat?.png"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parquet_has_the_columns_that_viewers_look_for(tmp_path, dtype):
    pq = pytest.importorskip("pyarrow.parquet")
    labels, splits = ["cat", None, "dog", "cat", "cat", "dog"], ["train"] * 3 + ["test"] * 3
    made = make_embedding(tmp_path, blobs(6, 5, 2)[0], files=ODD, labels=labels, splits=splits, dtype=dtype)
    table = pq.read_table(write_format(made, "parquet"))
    assert table.column_names == ["filename", "label", "split", "width", "height", "sha256", "vector"]
    assert str(table.schema.field("vector").type) == "list<element: float>", "which every reader knows"
    assert table["filename"].to_pylist() == READABLE
    assert table["label"].to_pylist() == labels
    assert table["split"].to_pylist() == splits
    assert np.array_equal(np.array(table["vector"].to_pylist(), dtype), made.vectors)


def test_parquet_of_many_groups_is_whole(tmp_path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("hardpair.embeddings.formats.AT_ONCE", 7)
    made = make_embedding(tmp_path, blobs(50, 3, 2)[0])
    table = pq.read_table(write_format(made, "parquet"))
    assert table["filename"].to_pylist() == list(made.files)
    assert np.array_equal(np.array(table["vector"].to_pylist(), np.float32), made.vectors)


def read_csv(file, dtype):
    """As csv and numpy read it."""
    with file.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    first = header.index("v0")
    return header, rows, np.array([[dtype(value) for value in row[first:]] for row in rows], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_csv_brings_back_every_bit(tmp_path, dtype):
    width = 16

    @settings(max_examples=30)
    @given(arrays(dtype, array_shapes(min_dims=2, max_dims=2, max_side=width), elements=st.floats(-6e4, 6e4, width=16)))
    def check(vectors):
        shutil.rmtree(tmp_path / "emb", ignore_errors=True)
        made = make_embedding(tmp_path / "emb", vectors / dtype(3), dtype=np.dtype(dtype).name)
        _, rows, read = read_csv(write_format(made, "csv"), dtype)
        assert [row[0] for row in rows] == list(made.files)
        assert read.tobytes() == made.vectors.tobytes()

    check()


def test_csv_of_odd_names(tmp_path):
    made = make_embedding(tmp_path, blobs(6, 2, 2)[0], files=ODD, labels=["a", None, *"abab"])
    header, rows, _ = read_csv(write_format(made, "csv"), np.float32)
    assert header == ["filename", "label", "split", "width", "height", "sha256", "v0", "v1"]
    assert [row[0] for row in rows] == READABLE
    assert [row[1] for row in rows] == ["a", "", *"abab"]
    assert not list(tmp_path.glob(".*")), "nothing half written is left"


def test_what_is_not_installed_is_said_before_the_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="pip install"):
        require_format("parquet")


NEEDED = (
    *("what", "version", "dtype", "encoder", "images", "vectors_sha256", "images_sha256"),
    *(f"images.{name}" for name in ("count", "broken", "root", "source", "kind")),
    *(f"encoder.{name}" for name in ("source", "fingerprint", "num_features", "settings", "square", "shown")),
    *("encoder.settings.name", "encoder.precision"),
)
MISSING = object()


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("value", [MISSING, None, 7.5], ids=["missing", "null", "fraction"])
def test_a_manifest_without_a_field_or_with_one_of_another_kind_is_refused(tmp_path, name, value):
    refuses(tmp_path, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("images.count", 7),
        ("images.count", 0),
        ("dtype", "float64"),
        ("images_sha256", "0" * 64),
        ("vectors_sha256", "0" * 64),
        ("encoder.num_features", 3),
        ("encoder.square", "y"),
        ("encoder.square", True),
        ("encoder.shown", 0),
        ("encoder.precision", "y"),
        ("encoder.settings", []),
        ("encoder", []),
        ("images", "y"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(tmp_path, name, value):
    refuses(tmp_path, name, value)


def refuses(folder, name, value):
    """One line that says what to do, where one field of the manifest is another."""
    make_embedding(folder, blobs(6, 2, 2)[0])
    content = json.loads((folder / "manifest.json").read_text())
    *outer, last = name.split(".")
    part = functools.reduce(dict.__getitem__, outer, content)
    del part[last]
    if value is not MISSING:
        part[last] = value
    (folder / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="embed the images again") as caught:
        open_embedding(folder)
    assert str(caught.value).startswith(str(folder))


@pytest.mark.parametrize(
    "line", [b"[]\n", b'"text"\n', b"{}\n", b'{"filename": "a"}\n', b"\xff\n", b"[" * 9999 + b"\n"]
)
def test_a_line_that_cannot_be_is_refused(tmp_path, line):
    made = make_embedding(tmp_path, blobs(1, 2, 2)[0])
    (tmp_path / "images.jsonl").write_bytes(line)
    content = {**made.manifest, "images_sha256": hashlib.sha256(line).hexdigest()}
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"images\.jsonl"):
        open_embedding(tmp_path)
