"""The doctor as a whole: it says all it can, whatever goes wrong, and its exit code tells."""

import json
import os
import tempfile

import pytest

from hardpair.doctor import Doctor, checks, good, warning
from hardpair.doctor.checks import CHECKS, run_doctor
from hardpair.errors import UserError


@pytest.mark.slow
def test_a_real_process_finds_nothing_bad_and_leaves_nothing(hardpair, tmp_path):
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = hardpair("doctor", "--data", "sample", "--json", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert {finding["level"] for finding in findings} <= {"good", "warning"}
    names = ["python", "packages", "processor", "threads", "gpu", "numbers, cpu", "narrow layers"]
    names += ["images", "train files", "duplicates", "balance", "test files", "leaks"]
    names += ["disk room", "disk speed", "data rate", "best threads", "resume", "process group", "two as one"]
    assert [f["check"] for f in findings if not f["check"].startswith("numbers, cuda")] == names
    assert list(tmp_path.rglob("*")) == [tmp_path / "temporary"]


def test_a_failing_check_does_not_stop_the_others(monkeypatch, capsys):
    def half(options):
        yield good("first half", "done")
        raise ZeroDivisionError("the second half\nhas two lines")

    def mistaken(options):
        raise UserError("data: no such folder")

    last = [warning("last", "found", "do this")]
    monkeypatch.setattr(checks, "CHECKS", {"halves": half, "images": mistaken, "last": lambda _: last})
    assert run_doctor(Doctor()) == 1
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "good     first half     done",
        "bad      halves         ZeroDivisionError: the second half",
        "bad      images         data: no such folder",
        "warning  last           found; do this",
    ]


@pytest.mark.parametrize("finding", [good("a", "b"), warning("a", "b", "c")])
def test_only_what_is_bad_counts(monkeypatch, capsys, finding):
    monkeypatch.setattr(checks, "CHECKS", {"a": lambda _: [finding]})
    assert run_doctor(Doctor()) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("nothing is bad, ")


def test_where_nothing_can_be_written_there_are_words_and_no_traceback(monkeypatch, capsys, tmp_path):
    """No place for temporary files: those checks are bad, those before them are not."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    chosen = {name: CHECKS[name] for name in ("installation", "resume", "processes")}
    monkeypatch.setattr(checks, "CHECKS", chosen)
    assert run_doctor(Doctor(json=True)) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [f["level"] for f in findings] == ["good", "good", "bad", "bad"]
    assert "No such file or directory" in findings[-1]["found"]
