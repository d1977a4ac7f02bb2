"""A run folder from a stranger: whatever its files say, a page is made of it, and only words get onto the page."""

import io
import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_run import RECIPE, neighbours, pairs, score, write_lines
from hostile import DEEP, STEEP, little_memory, within

from hardpair.cli import main
from hardpair.errors import UserError
from hardpair.report import summary_table, write_paper, write_report

EVIL = "\"><img src=x onerror=alert(1)><script>alert(2)</script><!-- ' `${alert(3)}` \x1b[31m\x00\udcff\u202e\n&lt;"
NAMES = ("log.jsonl", "scores.jsonl", "pairs.json", "neighbours.json", "encoder.json")


class Shape(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[tuple[str, str]] = set()
        self.addresses: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.addresses |= {str(value)[:22] for name, value in attrs if name in ("src", "href") and str(value)[0] != "#"}


def shape(run: Path) -> Shape:
    return Shape(write_report(run).read_text(encoding="utf-8"))


def poisoned(value: object) -> object:
    """The same, with every text in it replaced, but those by which the page finds its way."""
    if isinstance(value, dict):
        ways = ("event", "png", "time", "date", "protocol")
        return {key: inner if key in ways else poisoned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner) for inner in value]
    return EVIL if isinstance(value, str) else value


def poison(run: Path) -> Path:
    """Every text of every file, with some more where keys become text, and the name of the folder."""
    for name in ("recipe.json", *NAMES):
        lines = (run / name).read_text().splitlines() if name.endswith("jsonl") else [(run / name).read_text()]
        values = [poisoned(json.loads(line)) for line in lines]
        (run / name).write_text("\n".join(map(json.dumps, values)))
    recipe = {**json.loads((run / "recipe.json").read_text()), EVIL: EVIL, "settings": {EVIL: EVIL}}
    (run / "recipe.json").write_text(json.dumps(recipe))
    start = {"event": "start", "time": EVIL, "commit": EVIL, "skipped": [EVIL], "versions": {EVIL: EVIL}}
    more = {"protocol": EVIL, "metrics": {EVIL: EVIL, "top1": 1.0}, "settings": {"set": EVIL}, "date": EVIL}
    with (run / "log.jsonl").open("a") as log, (run / "scores.jsonl").open("a") as scores:
        log.write("\n" + json.dumps(start) + "\n" + json.dumps({"event": "stop", "step": 3, "reason": EVIL}) + "\n")
        log.write(json.dumps({"event": "warning", "text": EVIL}) + "\n")
        scores.write("\n" + json.dumps(more) + "\n")
    return run.rename(run.parent / EVIL.replace("/", "").replace("\x00", ""))


def test_texts_stay_texts(run: Path) -> None:
    plain = shape(run)
    folder = poison(run)
    evil = shape(folder)
    assert (folder / "report.html").read_text().count("alert(2)") > 100, "it is all there to read"
    assert evil.seen <= plain.seen | {("p", "class"), ("span", "role"), ("span", "aria-label")}
    assert "script" not in {tag for tag, _ in evil.seen}
    assert evil.addresses <= {"data:,", "data:image/png;base64,"}


def test_no_letter_of_them_commands_the_browser_or_the_terminal(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = poison(run)
    html = write_report(evil).read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", html)
    print(summary_table(evil))  # the terminal of pytest is strict about letters
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
    assert "\x1b" not in write_paper([evil], evil.parent / "paper.html")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", (evil.parent / "paper.html").read_text(encoding="utf-8"))


def test_pictures_are_png_or_nothing(run: Path) -> None:
    mined = pairs(4)
    bad = ("iVBORw0KGgo\" onerror='x", "PHN2Zz4=", "iVBORw0KGgoA\n<svg>", {"data": "x"})
    for pair, png in zip(mined["pairs"], bad, strict=True):
        pair["anchor"]["png"] = png
    (run / "pairs.json").write_text(json.dumps(mined))
    (run / "neighbours.json").unlink()
    assert write_report(run).read_text(encoding="utf-8").count("<img") == 4


def test_commands_to_copy_run_nothing_else(run: Path) -> None:
    """They are really run here, in a shell where hardpair and git do nothing."""
    for canary in ("; touch canary;", "$(touch canary)", "`touch canary`", "\ntouch canary\n", "' ; touch canary ; '"):
        recipe = {**RECIPE, "name": canary, f"x{canary}": canary, f"y{canary}": True, "settings": {canary: canary}}
        (run / "recipe.json").write_text(json.dumps(recipe))
        write_lines(run / "log.jsonl", [{"event": "start", "commit": f"3c9d8e7{canary}"}])
        code = unescape("\n".join(re.findall("<pre><code>(.*?)</code>", write_report(run).read_text(), re.DOTALL)))
        assert "hardpair pretrain" in code
        script = f"hardpair() {{ :; }}; git() {{ :; }}\n{code}"
        subprocess.run(["bash", "-c", script], cwd=run, check=True, capture_output=True)
        assert not (run / "canary").exists()


def test_a_commit_is_shown_only_if_it_looks_like_one(run: Path) -> None:
    for commit, shown in (("3c9d8e7f6a5b-dirty", True), ("3c9d8e7f6a5b; touch x", False)):
        write_lines(run / "log.jsonl", [{"event": "start", "commit": commit}])
        assert ("commit 3c9d8e7f6a5b of hardpair" in write_report(run).read_text()) == shown


HUGE = [10**400, -(10**400), 1.7e308, -1.7e308, 1e400, -1e400, float("nan"), 5e-324, 2**64]


@pytest.mark.parametrize(
    "value", [*HUGE, "x", None, True, [], {}, [[1]], {"a": {"b": 1}}], ids=lambda value: str(value)[:12]
)
def test_any_value_anywhere_still_makes_a_page(tmp_path: Path, value: object) -> None:
    keys = ("step", "epoch", "own")
    steps = [{"event": "step", **dict.fromkeys(keys, 1.0), key: value} for key in keys]
    alone = {"event": "step", "rank": 1.0, "step": value}  # a curve that stands nowhere
    ends = [{"event": kind, "seconds": value, "step": value} for kind in ("start", "stop", "warning", "end", "end")]
    write_lines(tmp_path / "log.jsonl", [*steps, alone, {"event": value}, *ends])
    fields = (
        "settings",
        "metrics",
        "control",
        "data",
        "protocol",
        "step",
        "labelled_images",
        "recipe_hash",
        "date",
        "classes",
        "source",
        "data_root",
        "image_size",
        "on",
    )
    scores = [{**score("linear", {"labels": value}, 45.1, 33.0), field: value} for field in fields]
    inner = {**score("knn", {"k": value}, 1.0, 1.0), "metrics": {"top1": value, "own": value}, "control": {"top1": 2}}
    tested = {
        **score("semi", {"set": value, "form": value}, 1.0, 1.0),
        "data": {"test": {"name": value, "images": value}},
    }
    write_lines(tmp_path / "scores.jsonl", [*scores, inner, tested])
    (tmp_path / "recipe.json").write_text(json.dumps({**dict.fromkeys(RECIPE, value), "settings": {"tau": value}}))
    mined = {**dict.fromkeys(("images", "mined", "share", "false_negatives", "chance"), value)}
    image = {"id": value, "label": value, "file": value, "png": value}
    pair = {"distance": value, "anchor": image, "negative": value}
    (tmp_path / "pairs.json").write_text(json.dumps({**mined, "pairs": [pair, value]}))
    query = {"image": image, "neighbours": [{**image, "similarity": value}, value], "control": value}
    found = {"agreement": value, "control_agreement": value, "queries": [query, value]}
    (tmp_path / "neighbours.json").write_text(json.dumps(found))
    (tmp_path / "encoder.json").write_text(json.dumps({"num_features": value}))
    with within(20):
        write_report(tmp_path)
        summary_table(tmp_path)
        write_paper([tmp_path], tmp_path / "paper.html")


@pytest.mark.parametrize("text", [DEEP, STEEP], ids=["deep", "steep"])
def test_deep_files_are_left_out_and_mentioned(run: Path, text: str) -> None:
    for name in NAMES:
        (run / name).write_text(text)
    html = write_report(run).read_text()
    assert all(name in html for name in NAMES)
    (run / "recipe.json").write_text(text)
    with pytest.raises(UserError, match=r"recipe\.json is damaged"):
        write_report(run)


def test_files_that_are_too_long_are_left_out_and_mentioned(run: Path) -> None:
    for name in NAMES:
        with (run / name).open("r+b") as file:
            file.truncate(100_000_000)
    with little_memory(100):
        html = write_report(run).read_text()
    assert html.count("cannot be read (it has 100,000,000 bytes, over 64,000,000) and was left out.") == len(NAMES)
    with (run / "recipe.json").open("r+b") as file:
        file.truncate(100_000_000)
    with pytest.raises(UserError, match=r"recipe\.json cannot be read \(it has 100,000,000 bytes, over 1,000,000\)"):
        write_report(run)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_not_waited_for(run: Path) -> None:
    for name in NAMES:
        (run / name).unlink()
        os.mkfifo(run / name)
    with within(10):
        assert "no score has been measured yet" in write_report(run).read_text()
    (run / "recipe.json").unlink()
    os.mkfifo(run / "recipe.json")
    with within(10), pytest.raises(UserError, match="is not a run"):
        write_report(run)


def test_a_log_of_ten_thousand_kinds_of_figures_is_not_drawn_to_its_end(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.report.training._MOST_OWN", 2)  # which are quicker to draw than the usual 20
    step = {"event": "step", "step": 1, "epoch": 1.0, **{f"own{k}": 1.0 for k in range(10_000)}}
    write_lines(run / "log.jsonl", [step])
    with within(30):
        assert write_report(run).read_text().count("<svg") == 2


def test_a_label_need_not_be_a_text(run: Path) -> None:
    """Names of folders become labels, and need not be letters in any language."""
    found = neighbours(1)
    found["queries"][0]["image"]["label"] = os.fsdecode(b"\xff\xfe<b>")
    (run / "neighbours.json").write_text(json.dumps(found))
    assert "&lt;b&gt;" in write_report(run).read_text(encoding="utf-8")


def test_a_run_folder_need_not_have_a_name_of_letters(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "log.jsonl").unlink()
    run = run.rename(run.parent / os.fsdecode(b"\xff\xfe run"))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as strict as a terminal
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["hardpair", "report", str(run)])
    with pytest.raises(SystemExit) as stop:
        main()
    out.flush()
    said = out.buffer.getvalue().decode()
    assert stop.value.code == 0
    assert said.startswith("?? run: ")
    assert r"\udcff\udcfe run/report.html" in said
    assert (run / "report.html").is_file()
