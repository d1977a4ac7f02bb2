"""Tables come back as they were written, whatever the names of the files."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpair.embeddings.csv_files import write_csv

NAMES = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\r\n",; \udc80\udcff'), min_size=1)
HEADER = ("filename", "label")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables") / "table.csv"


@given(st.lists(st.tuples(NAMES, NAMES)))
def test_rows_come_back(file: Path, rows: list[tuple[str, str]]):
    with write_csv(file, HEADER, rows).open(newline="", encoding="utf-8", errors="surrogateescape") as stream:
        assert [tuple(row) for row in csv.reader(stream)] == [HEADER, *rows]


@given(st.lists(st.tuples(NAMES.filter(lambda name: "\r" not in name), st.integers())))
def test_lines_end_in_a_line_feed_and_nothing_else(file: Path, rows: list[tuple[str, int]]):
    plain = io.StringIO(newline="")
    csv.writer(plain, lineterminator="\n").writerows([HEADER, *rows])
    assert write_csv(file, HEADER, rows).read_bytes() == plain.getvalue().encode("utf-8", "surrogateescape")
