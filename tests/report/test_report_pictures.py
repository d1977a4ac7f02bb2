"""Pictures on the page: neighbours and mined pairs, with and without labels."""

import json
import re
from pathlib import Path

import pytest
from fake_run import neighbours, pairs, write_lines

from hardpair.cli import run_verb
from hardpair.report import summary_table, write_report
from hardpair.report.pictures import short_name


def page(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def test_neighbours_and_pairs_are_marked_by_words_too(run: Path) -> None:
    html = page(run)
    found, mined = neighbours(), pairs()
    first = found["queries"][0]
    right = sum(one["label"] == first["image"]["label"] for one in first["neighbours"])
    same = sum(pair["anchor"]["label"] == pair["negative"]["label"] for pair in mined["pairs"])
    assert f"{right} of 6 right" in html
    assert html.count("= same class") == same
    assert html.count("≠ different") == len(mined["pairs"]) - same
    assert html.count("<img") == len(found["queries"]) * 13 + len(mined["pairs"]) * 2


def test_every_picture_names_its_file(run: Path) -> None:
    html = page(run)
    named = re.findall(r'class="file" title="([^"]*)">([^<]*)<', html)
    assert len(named) == html.count("<img")
    assert ("frog/photo_of_a_frog_00005.jpg", "photo_…_00005") in named


@pytest.mark.parametrize(
    ("file", "expected"),
    [("a/b/cat.jpg", "cat"), ("cat", "cat"), (".jpg", ".jpg"), ("IMG_20210731_183012.jpg", "IMG_20…183012"), ("", "")],
)
def test_names_of_files_keep_both_ends(file: str, expected: str) -> None:
    assert short_name(file) == expected


def without_labels(run: Path) -> None:
    """As a run on unlabelled images leaves it."""
    mined, found = {**pairs(3), "false_negatives": None, "chance": None}, neighbours(2)
    found |= {"agreement": None, "control_agreement": None}
    images = [pair[side] for pair in mined["pairs"] for side in ("anchor", "negative")]
    images += [query["image"] for query in found["queries"]]
    images += [one for query in found["queries"] for key in ("neighbours", "control") for one in query[key]]
    for image in images:
        image["label"] = None
    (run / "pairs.json").write_text(json.dumps(mined), encoding="utf-8")
    (run / "neighbours.json").write_text(json.dumps(found), encoding="utf-8")
    write_lines(run / "log.jsonl", [{"event": "start", "classes": 0}, {"event": "step", "step": 1, "mined": 0.1}])
    (run / "scores.jsonl").unlink()


def test_images_without_labels_claim_nothing(run: Path) -> None:
    without_labels(run)
    html = page(run)
    assert html.count("<img") == 2 * 13 + 3 * 2
    assert "false negatives cannot be counted" in html
    for words in ("same class", "no label<", "no labels<", " right<", "A tick", 'class="label"'):
        assert words not in html
    advice = f"hardpair evaluate {run} --data FOLDER_WITH_CLASSES"
    assert advice in html
    assert advice in summary_table(run)


def test_a_picture_with_neither_label_nor_file_has_its_number(run: Path) -> None:
    without_labels(run)
    found = neighbours(1)
    found["queries"][0]["image"].update(label=None, file=None, id=17)
    (run / "neighbours.json").write_text(json.dumps(found), encoding="utf-8")
    assert ">image 17<" in page(run)


def test_older_runs_without_labels_are_recognised_by_their_pictures(run: Path) -> None:
    without_labels(run)
    (run / "log.jsonl").unlink()
    assert "FOLDER_WITH_CLASSES" in summary_table(run)
    for name in ("pairs.json", "neighbours.json"):
        (run / name).unlink()
    assert "FOLDER_WITH_CLASSES" not in summary_table(run)


def test_a_method_that_mines_nothing_has_no_pairs_to_show(run: Path) -> None:
    (run / "pairs.json").unlink()
    assert "Hardest mined pairs" in page(run)
    write_lines(run / "log.jsonl", [{"event": "step", "step": 1, "loss": 1.0}])
    assert "Hardest mined pairs" not in page(run)


def test_training_without_labels_leaves_neighbours(tmp_path: Path, photos: Path) -> None:
    tiny = "--image-size 16 --batch-size 10 --epochs 1 --width 0.1 --threads 1"
    run_verb(["pretrain", "demo", "--data", str(photos), *tiny.split(), "--run", str(tmp_path / "run")])
    found = json.loads((tmp_path / "run/neighbours.json").read_text())
    assert (len(found["queries"]), found["agreement"]) == (8, None)
    for query in found["queries"]:
        assert len(query["neighbours"]) == len(query["control"]) == 6
        own = [one["file"] for one in query["neighbours"]]
        assert query["image"]["file"] not in own
        assert set(own) <= {path.name for path in photos.iterdir()}
    html = page(tmp_path / "run")
    assert html.count('class="card query"') == 8
    assert all(query["image"]["file"] in html for query in found["queries"])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Thirty pictures in one folder."""
    import base64

    from fake_run import png

    (tmp_path / "photos").mkdir()
    for place in range(30):
        (tmp_path / f"photos/photo {place}.png").write_bytes(base64.b64decode(png(place % 6, place)))
    return tmp_path / "photos"
