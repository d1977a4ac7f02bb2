"""Files are written whole or not at all, and read whoever wrote them."""

import json
import os
import subprocess
import sys

import pytest
from hostile import DEEP, STEEP

from hardpair.errors import UserError
from hardpair.files import append_json, commit, parse_json, read_json, write_atomically

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


@pytest.mark.parametrize("text", [DEEP, STEEP, "{", "", "[1, 2", "{'a': 1}", "__import__('os')"])
def test_what_is_no_json_of_ours_is_one_kind_of_error(text):
    with pytest.raises(ValueError, match=r"nested too deeply|Expecting|char"):
        parse_json(text)


def test_many_brackets_are_not_deep():
    wide = {"names": [f"[{k}" for k in range(100)], "lists": [[k] for k in range(100)]}
    assert parse_json(json.dumps(wide)) == wide
    assert parse_json('"' + "[" * 1000 + '"') == "[" * 1000


@pytest.mark.parametrize(("levels", "fine"), [(20, True), (21, False)])
def test_twenty_levels_are_enough(levels, fine):
    text = f"[{'[], ' * 20}{'[' * (levels - 1)}{']' * (levels - 1)}]"  # enough brackets to be looked at
    if fine:
        assert len(parse_json(text)) == 21
        return
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(text)


def test_a_file_that_is_too_long_is_not_read(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(ValueError, match="100,000,000 bytes, over 1,000,000"):
        read_json(tmp_path / "a.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_and_a_device_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(ValueError, match="no plain file"):
            read_json(tmp_path / name)
