"""Files are written whole or not at all."""

import json
import subprocess
import sys

import pytest

from hardpair.errors import UserError
from hardpair.files import append_json, commit, write_atomically

FULL_DISK = """
import resource, sys
from pathlib import Path
from hardpair.errors import UserError
from hardpair.files import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(Path(sys.argv[1]), b"x" * 5000)
except UserError as error:
    print(error)
"""


def test_replaces_the_old_file_and_leaves_nothing_else(tmp_path):
    for content in (b"old", b"new"):
        write_atomically(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_no_room_leaves_the_old_file(tmp_path):
    """The system really refuses to write more than 1,000 bytes."""
    target = tmp_path / "file"
    target.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(target)], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_lines_are_added(tmp_path):
    for number in (1, 2):
        append_json(tmp_path / "log.jsonl", {"number": number})
    assert [json.loads(line)["number"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 2]
    with pytest.raises(UserError, match="cannot be written"):
        append_json(tmp_path / "no" / "folder", {})


def test_half_a_line_spoils_no_other(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"number": 1}\n{"numb')
    append_json(tmp_path / "log.jsonl", {"number": 2})
    assert (tmp_path / "log.jsonl").read_text().splitlines()[-1] == '{"number": 2}'


def test_commit_of_another_repository_is_not_ours(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr("hardpair.files.__file__", str(tmp_path / "files.py"))
    assert commit() is None
