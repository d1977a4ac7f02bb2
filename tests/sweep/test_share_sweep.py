"""The same comparison, started twice: two processes share its runs."""

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from small_sweeps import compare_words, read_lines
from together import SERVER

from hardpair.cli.compare import main as compare

NAMES = [f"{method}-b1-s{seed}" for seed in range(2) for method in ("hnpm", "simclr")]


def one_of_two(photos: Path, out: Path, cache: Path, said: Path) -> None:
    os.environ["HARDPAIR_CACHE"] = str(cache)
    with said.open("w") as file, contextlib.redirect_stdout(file):
        assert compare(compare_words(photos, out, "--threads", "1")) == 0


@pytest.mark.slow
def test_two_processes_do_every_run_once(photos, tmp_path):
    out, said = tmp_path / "out", [tmp_path / "said0", tmp_path / "said1"]
    two = [SERVER.Process(target=one_of_two, args=(photos, out, tmp_path / "cache", file)) for file in said]
    for process in two:
        process.start()
    for process in two:
        process.join(timeout=300)
    assert [process.exitcode for process in two] == [0, 0]
    for name in NAMES:
        events = [line["event"] for line in read_lines(out / name / "log.jsonl")]
        assert events.count("start") == 1, name
        assert [line["protocol"] for line in read_lines(out / name / "scores.jsonl")] == ["knn", "linear"], name
    texts = [file.read_text() for file in said]
    assert all("table.md" in text.splitlines()[-1] for text in texts)
    assert all(" at 8 px" in text for text in texts), "one process did all"
    assert not (out / "locks").exists()
    known = json.loads((out / "compare.json").read_text())
    assert known["runs_done"] == len(NAMES)


@pytest.mark.usefixtures("_no_figure")
def test_waits_for_a_run_that_another_process_is_at(compared, photos, tmp_path, monkeypatch, capsys):
    """The other process has the run, and has not finished it: ours waits, and ends as soon as it is there."""
    out = shutil.copytree(compared, tmp_path / "out")
    theirs = out / "simclr-b1-s0"
    theirs.rename(tmp_path / "theirs")
    (out / "locks").mkdir()
    with (out / "locks" / theirs.name).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def other_finishes(_seconds: float) -> None:
            (tmp_path / "theirs").rename(theirs)
            lock.close()

        monkeypatch.setattr("hardpair.sweep.runner.time.sleep", other_finishes)
        assert compare(compare_words(photos, out)) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "[2/4]" in line]
    assert [line.split("image)")[1] for line in said] == [": another process is at it", ": done elsewhere"]
