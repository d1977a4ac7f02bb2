"""Tables of labels as people and spreadsheets write them."""

import codecs
import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_embedding import make_embedding

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.labels import labels_from_folders, labels_from_table, read_labels
from hardpair.errors import UserError

FILES = ["a.jpg", "sub/b.jpg", "c,d.jpg", "é.jpg", "bad\udcff.jpg"]
LABELS = [
    "",
    "cat",
    "dog, small",
    'a "quoted" one',
    "Ärger",
    "न\u200dम",
    "a\u00a0b",
]  # of all scripts


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Embedding:
    folder = tmp_path_factory.mktemp("emb") / "emb"
    made = make_embedding(folder, np.eye(5, dtype="f4"), files=FILES, root=Path("/photos"), sha256=["0" * 64] * 5)
    (folder / "broken.txt").write_text("torn.jpg: image file is truncated\n")
    return made


def table(tmp_path: Path, content: str | bytes) -> Path:
    file = tmp_path / "labels.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    return file


@pytest.mark.parametrize(
    "content",
    [
        "filename,label\na.jpg,cat\nsub/b.jpg,dog\n",
        "\ufefffilename,label\r\na.jpg,cat\r\nsub/b.jpg,dog\r\n",
        "filename;label\na.jpg;cat\nsub/b.jpg;dog\n",
        "label\tnote\tFilename\ncat\tx\ta.jpg\n\n dog \t\tsub/b.jpg\n",
        'filename,label\n"a.jpg","cat"\nsub/b.jpg,dog\n"c,d.jpg",\n,\n',
        codecs.BOM_UTF16_LE + "filename\tlabel\r\na.jpg\tcat\r\nsub/b.jpg\tdog".encode("utf-16-le"),
        "filename,label\n/photos/a.jpg,cat\n./sub/b.jpg,dog\na.jpg,cat\n",
        "filename,label\na.jpg,cat\nsub\\b.jpg,dog\n",
    ],
    ids=["plain", "BOM", "semicolons", "tabs, more columns", "quotes, empty", "UTF-16", "paths", "backslashes"],
)
def test_tables_of_many_kinds_say_the_same(embedding: Embedding, tmp_path: Path, content: str | bytes):
    found = labels_from_table(embedding, table(tmp_path, content))
    assert found.rows.tolist() == [0, 1]
    assert [found.classes[k] for k in found.labels] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("a.jpg,cat\nsub/b.jpg,dog\n", "no column 'filename'.*first line"),
        ("filename\na.jpg\n", "no column 'label'"),
        ("filename,label,label\na.jpg,cat,\n", "two columns 'label'"),
        ("filename,label\n", "holds no labels"),
        ("filename,label\na.jpg,\nsub/b.jpg, \n", "none of its 2 rows has a label yet"),
        ("filename,label\na.jpg,cat\nsub/b.jpg,dog\na.jpg,dog\n", "line 4: 'a.jpg' has two different labels"),
        ("filename,label\na.jpg,cat\n/photos/a.jpg,dog\n", "'a.jpg' has two different labels"),
        ("filename,label\na.jpg,cat\nsub/b.jpg,cat\n", "only 'cat' occurs"),
        ("filename,label\nb.jpg,cat\nnone.jpg,dog\n", "its 2 files are not among.*did you mean sub/b.jpg"),
        ('filename,label\na.jpg,"cat\n', "no line of a CSV"),
        ("filename,label\na.jpg," + "x" * 200_000, "no line of a CSV"),
        (
            b"filename,label\na.jpg,cat\nsub/b.jpg,caf\xe9\n",
            "line 3: the label is not UTF-8; save .* CSV UTF-8",
        ),
        ("filename,label\na.jpg,c\0t\n", r"line 2: the label holds a control character .*'\\x00'"),
        ('filename,label\na.jpg,cat\nsub/b.jpg,"a\ndog"\n', r"line 4: the label holds .*line break \('\\n'\)"),
        ('filename,label\na.jpg,"a\u2028dog"\n', "line 2: the label holds"),
    ],
)
def test_what_cannot_be_meant_is_one_line(embedding: Embedding, tmp_path: Path, content: str | bytes, words: str):
    with pytest.raises(UserError, match=words) as caught:
        labels_from_table(embedding, table(tmp_path, content)).require_two_classes()
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_a_table_that_is_not_there_or_is_a_folder_is_named(tmp_path: Path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            read_labels(path)


def test_files_that_are_not_there_are_counted_and_named(
    embedding: Embedding, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    content = "filename,label\na.jpg,cat\nsub/b.jpg,dog\ntorn.jpg,cat\naa.jpg,cat\n"
    found = labels_from_table(embedding, table(tmp_path, content))
    assert found.rows.tolist() == [0, 1]
    [said] = caplog.messages
    assert "2 of 4 files" in said
    assert "'aa.jpg'; did you mean a.jpg?" in said
    assert "1 of them could not be read" in said


def test_classes_that_differ_in_case_are_pointed_out(
    embedding: Embedding, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    labels_from_table(embedding, table(tmp_path, "filename,label\na.jpg,Cat\nsub/b.jpg,cat\n"))
    assert any("'Cat' and 'cat'" in message for message in caplog.messages)


@settings(max_examples=50)
@given(
    labels=st.lists(st.sampled_from(LABELS), min_size=5, max_size=5),
    semicolons=st.booleans(),
    mark=st.booleans(),
)
def test_what_python_writes_is_read(
    embedding: Embedding, tmp_path_factory: pytest.TempPathFactory, labels: list[str], semicolons: bool, mark: bool
):
    given_ones = {name: label for name, label in zip(FILES, labels, strict=True) if label}
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=";" if semicolons else ",").writerows([("filename", "label"), *zip(FILES, labels)])  # noqa: B905
    file = table(tmp_path_factory.mktemp("tables"), "\ufeff" * mark + buffer.getvalue())
    if given_ones:
        assert read_labels(file) == given_ones
    if len(set(given_ones.values())) > 1:
        found = labels_from_table(embedding, file)
        known = [found.classes[k] for k in found.labels]
        assert {embedding.files[row]: name for row, name in zip(found.rows, known, strict=True)} == given_ones


def test_folders_are_classes(tmp_path: Path):
    found = labels_from_folders(make_embedding(tmp_path, np.eye(5, dtype="f4"), labels=["a", "b", "a", None, "c"]))
    assert found.rows.tolist() == [0, 1, 2, 4]
    assert found.labels.tolist() == [0, 1, 0, 2]
    part = found.only(np.array([True, False, False, True]))
    assert (part.rows.tolist(), part.labels.tolist(), part.classes) == ([0, 4], [0, 1], ("a", "c"))
    moved = found.moved([5, -1, 3, -1])
    assert (moved.rows.tolist(), moved.labels.tolist()) == ([5, 3], [0, 0])


def test_without_labels_the_way_to_them_is_named(embedding: Embedding):
    with pytest.raises(UserError, match="--labels"):
        labels_from_folders(embedding)
