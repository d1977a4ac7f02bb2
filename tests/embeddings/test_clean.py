"""What `hardpair clean` reports, keeps and writes."""

import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from make_embedding import blobs, make_embedding
from PIL import Image

import hardpair as hp
from hardpair.cli import run_verb
from hardpair.data.sample import read_sample
from hardpair.data.tree import open_tree
from hardpair.embeddings.clean import outliers
from hardpair.embeddings.embedding import Embedding
from hardpair.errors import UserError


def photo(row: int, side: int = 64) -> Image.Image:
    pixels = read_sample("train").batch(torch.tensor([row]))[0].numpy()
    return Image.fromarray(pixels.transpose(1, 2, 0)).resize((side, side), Image.Resampling.BICUBIC)


def vectors_of(count: int) -> np.ndarray:
    """That know nothing of the pictures."""
    return np.random.default_rng(0).normal(size=(count, 16)).astype(np.float32)


@pytest.fixture
def shop(tmp_path: Path) -> Embedding:
    """Ten photos, with an equal file, a smaller copy that leaks into the test split, and a mirrored copy."""
    names = [f"train/{row}.png" for row in range(10)]
    names += ["train/equal.png", "test/small.jpg", "train/mirrored.png"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    for row in range(10):
        photo(row * 40).save(tmp_path / names[row])
    (tmp_path / "train/equal.png").write_bytes((tmp_path / "train/0.png").read_bytes())
    photo(40, 48).save(tmp_path / "test/small.jpg", quality=90)
    photo(80, 80).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "train/mirrored.png")
    hashes = [f"{row:064x}" for row in range(13)]
    hashes[10] = hashes[0]
    embedding = make_embedding(
        tmp_path / "emb",
        vectors_of(13),
        files=names,
        splits=[name.partition("/")[0] for name in names],
        sha256=hashes,
        root=tmp_path,
    )
    embedding.sides[:10] = 64
    embedding.sides[11], embedding.sides[12] = 48, 80
    return embedding


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "clean.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


def test_groups_leaks_and_what_is_kept(shop, tmp_path):
    found = hp.clean(shop, keep_list=tmp_path / "keep.txt")
    by_kind = {(group.kind, group.leak): group for group in found.groups}
    assert set(by_kind) == {("exact", False), ("near", True), ("near", False)}
    assert by_kind["exact", False].rows == (0, 10)
    assert by_kind["near", True].rows == (11, 1)  # of a leak, the copy that is not for training
    assert by_kind["near", False].rows == (12, 2)  # else the largest
    assert found.groups[0].leak
    kept = set(open_tree(tmp_path / "keep.txt").find(tmp_path))
    assert set(shop.files) - kept == {"train/equal.png", "train/1.png", "train/2.png"}
    assert (tmp_path / "train/equal.png").exists()
    rows = table(shop.folder)
    assert [row["filename"] for row in rows if row["suggestion"] == "leave out"] == [
        "train/1.png",
        *sorted(["train/equal.png", "train/2.png"], key=[row["filename"] for row in rows].index),
    ]
    leak = next(row for row in rows if row["filename"] == "train/1.png")
    assert leak["partner"] == "test/small.jpg"
    assert leak["leak"] == "yes"
    assert leak["split"] == "train"
    assert 0.85 <= float(leak["score"]) <= 1


def test_the_list_is_relative_to_its_own_folder(shop, tmp_path):
    (tmp_path / "lists").mkdir()
    hp.clean(shop, keep_list=tmp_path / "lists" / "keep.txt")
    lines = (tmp_path / "lists" / "keep.txt").read_text().splitlines()
    assert "../train/0.png" in lines
    assert len(open_tree(tmp_path / "lists" / "keep.txt").find(tmp_path)) == 10


def test_a_list_may_be_written_again_and_nothing_else_written_over(shop, tmp_path):
    target = tmp_path / "keep.txt"
    for _ in range(2):
        hp.clean(shop, keep_list=target)
    notes = tmp_path / "notes.txt"
    notes.write_text("dear diary\n")
    with pytest.raises(UserError, match=r"notes\.txt"):
        hp.clean(shop, keep_list=notes)
    assert notes.read_text() == "dear diary\n"
    with pytest.raises(UserError, match=r"keep\.csv"):
        hp.clean(shop, keep_list=tmp_path / "keep.csv")
    with pytest.raises(UserError, match="nowhere"):
        hp.clean(shop, keep_list=tmp_path / "nowhere" / "keep.txt")
    (shop.folder / "clean.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"clean\.csv"):
        hp.clean(shop)


def test_pictures_that_moved(shop, tmp_path):
    """Equal files are known by their hash; the rest by vectors alone, and not left out for that."""
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for folder in ("train", "test"):
        (tmp_path / folder).rename(moved / folder)
    shop.vectors[1] = shop.vectors[11]
    found = hp.clean(shop, keep_list=tmp_path / "keep.txt")
    assert [(group.kind, group.rows) for group in found.groups] == [("similar", (11, 1)), ("exact", (0, 10))]
    assert found.left_out() == {10}
    assert any("13 pictures" in note for note in found.notes)
    assert (tmp_path / "keep.txt").read_bytes() == b""  # it names no file that is not there
    again = hp.clean(shop, images=moved, keep_list=tmp_path / "keep.txt")
    assert [group.rows for group in again.leaks] == [(11, 1)]
    assert len(open_tree(tmp_path / "keep.txt").find(moved)) == 10
    with pytest.raises(UserError, match="no folder"):
        hp.clean(shop, images=tmp_path / "nowhere")


def test_against_another_embedding(shop, tmp_path):
    photo(120).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "held.png")
    photo(999).save(tmp_path / "new.png")
    other = make_embedding(tmp_path / "other", vectors_of(3)[1:], files=["held.png", "new.png"], root=tmp_path)
    found = hp.clean(shop, against=other, keep_list=tmp_path / "keep.txt")
    leak = next(group for group in found.leaks if 3 in group.rows)
    assert leak.rows == (13, 3)
    assert "train/3.png" not in open_tree(tmp_path / "keep.txt").find(tmp_path)
    line = next(row for row in table(shop.folder) if row["filename"] == "train/3.png")
    assert line["partner"] == str(tmp_path / "held.png")
    stranger = make_embedding(tmp_path / "stranger", vectors_of(3), encoder="0" * 64)
    with pytest.raises(UserError, match="another encoder"):
        hp.clean(shop, against=stranger)


def test_a_real_embedding_without_files(sample_embedding, tmp_path):
    found = hp.clean(sample_embedding, out=tmp_path / "new")
    assert {row["kind"] for row in table(tmp_path / "new")} <= {"exact", "near", "label", "outlier"}
    assert np.isfinite(found.labels.score).all()
    assert (tmp_path / "new" / "clean.html").stat().st_size > 10_000
    with pytest.raises(UserError, match="keep_list"):
        hp.clean(sample_embedding, keep_list=tmp_path / "keep.txt", out=tmp_path / "new")


def test_doubtful_images_are_left_out_when_asked(tmp_path):
    vectors, labels = blobs(200, 8, 2)
    vectors[7] = -20 * vectors.mean(0)
    names = [f"{row}.png" for row in range(200)]
    for name in names:
        (tmp_path / name).write_bytes(b"not a picture, but there")
    wrong = [f"c{label}" for label in labels]
    wrong[5] = f"c{1 - labels[5]}"
    embedding = make_embedding(tmp_path / "emb", vectors, files=names, labels=wrong, root=tmp_path)
    found = hp.clean(embedding, keep_list=tmp_path / "all.txt")
    assert found.labels.likely.tolist()[0] == 5
    assert found.outliers.tolist()[0] == 7
    hp.clean(embedding, keep_list=tmp_path / "few.txt", without=["labels", "outliers"])
    few = set((tmp_path / "few.txt").read_text().split())
    assert set((tmp_path / "all.txt").read_text().split()) == set(names)
    assert {"5.png", "7.png"}.isdisjoint(few)
    assert len(few) >= 190
    label = next(row for row in table(embedding.folder) if row["filename"] == "5.png")
    assert (label["kind"], label["label"], label["suggested_label"]) == ("label", wrong[5], f"c{labels[5]}")
    hp.clean(embedding, keep_list=tmp_path / "one.txt", without="outliers")  # one word is a word, not letters
    assert (tmp_path / "one.txt").read_text().split() == [name for name in names if name != "7.png"]
    for words in (["everything"], "everything"):
        with pytest.raises(UserError, match=r"^without: must be outliers or labels, not 'everything'$"):
            hp.clean(embedding, without=words)


def test_ten_thousand_equal_images(tmp_path):
    """One group, a line each; the page shows some of them."""
    count = 10_000
    embedding = make_embedding(tmp_path, np.ones((count, 8), np.float32), sha256=["a" * 64] * count)
    found = hp.clean(embedding)
    assert [len(group.rows) for group in found.groups] == [count]
    assert len(found.left_out()) == count - 1
    assert len(found.outliers) == 0
    assert len(table(tmp_path)) == count
    assert (tmp_path / "clean.html").stat().st_size < 1_000_000


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_few_images(tmp_path, count):
    found = hp.clean(make_embedding(tmp_path, vectors_of(count)))
    assert not found.groups
    assert len(found.outliers) == 0
    assert table(tmp_path) == []


def test_names_that_are_not_text_or_hold_a_line_break(tmp_path):
    names = ["ok.png", os.fsdecode(b"caf\xe9.png"), "two\nlines.png"]
    for row, name in enumerate(names):
        photo(row * 40).save(tmp_path / name)
    embedding = make_embedding(tmp_path / "emb", vectors_of(3), files=names, sha256=["a" * 64] * 3, root=tmp_path)
    found = hp.clean(embedding, keep_list=tmp_path / "keep.txt")
    assert len(found.left_out()) == 2
    assert {row["filename"] for row in table(tmp_path / "emb")} == set(names)
    odd = make_embedding(tmp_path / "odd", vectors_of(3), files=names, root=tmp_path)
    found = hp.clean(odd, keep_list=tmp_path / "keep.txt")
    assert (tmp_path / "keep.txt").read_bytes().splitlines() == [b"ok.png", b"caf\xe9.png"]
    assert any("line breaks" in note for note in found.notes)


def test_outliers_are_far_from_all_for_this_set():
    random = np.random.default_rng(0)
    scores = np.exp(random.normal(-2, 0.3, 2000)).astype(np.float32)
    assert len(outliers(scores)) <= 4
    scores[[3, 4]] = 1.5, 1.2
    assert outliers(scores)[:2].tolist() == [3, 4]
    assert len(outliers(np.zeros(100, np.float32))) == 0
    assert len(outliers(scores[:10])) == 0


def test_the_same_images_and_a_page_of_something_else_are_refused(shop, tmp_path):
    with pytest.raises(UserError, match="against"):
        hp.clean(shop, against=shop)
    page = tmp_path / "out/clean.html"
    page.parent.mkdir()
    page.write_text("my own page")
    with pytest.raises(UserError, match="holds something else"):
        hp.clean(shop, out=page.parent)
    assert page.read_text() == "my own page"


def test_what_is_left_out_on_request_is_not_counted_as_kept(shop):
    found = replace(hp.clean(shop), outliers=np.array([0]))
    counts = [len(found.kept(without)) for without in ((), ("outliers",))]
    assert counts[0] == counts[1] + 1
    assert f"worth keeping: {counts[1]} of" in "\n".join(found.summary(["outliers"]))


def test_the_verb_says_what_it_found(shop, tmp_path, capsys):
    assert run_verb(["clean", str(shop.folder), "--keep-list", str(tmp_path / "keep.txt"), "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert "exact duplicates: 1 group" in said
    assert "leaks between splits: 1 group" in said
    assert str(shop.folder / "clean.html") in said


@pytest.mark.slow
def test_from_the_command_line(hardpair, shop, tmp_path):
    done = hardpair("clean", str(shop.folder), "--keep-list", "keep.txt", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "keep.txt").read_text().splitlines()) == 10
    wrong = hardpair("clean", str(tmp_path / "nothing"))
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) == 1


def test_the_page_in_a_browser(shop, browser, tmp_path):
    name = "train/<img src=x onerror=alert(1)>.png"
    (tmp_path / "train/equal.png").rename(tmp_path / name.replace("/<", "/<"))
    files = [*shop.files[:10], name, *shop.files[11:]]
    embedding = make_embedding(
        tmp_path / "page", np.asarray(shop.vectors), files=files, splits=list(shop.splits), sha256=list(shop.sha256),
        root=tmp_path,
    )  # fmt: skip
    hp.clean(embedding)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto((tmp_path / "page/clean.html").as_uri())
    assert page.locator("section").count() == 3
    assert page.locator("figure").count() == 6
    assert page.get_by_text(name).count() >= 1
    assert page.locator("section").first.locator("img").evaluate_all("all => all.every(one => one.naturalWidth > 0)")
    assert "in test and train" in page.locator("section").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not errors
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.close()
