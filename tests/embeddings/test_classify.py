"""From labels of some pictures to a class for all, and to a head for new pictures."""

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from make_embedding import blobs, make_embedding, write_pictures
from PIL import Image

import hardpair as hp
from hardpair.embeddings import tune_head
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.head import load_head
from hardpair.embeddings.predictions import COLUMNS
from hardpair.errors import UserError
from hardpair.models import load_encoder

CLASSES = ("ant", "bee <b>", "cat")


@pytest.fixture
def embedding(tmp_path: Path) -> Embedding:
    """Of 60 pictures that are there, in three classes that overlap a little."""
    vectors, labels = blobs(60, 8, 3, spread=0.6)
    files = [f"{CLASSES[k][:3]}/{row:02d} <i>.png" for row, k in enumerate(labels)]
    return make_embedding(tmp_path / "emb", vectors, files=files, root=write_pictures(tmp_path / "photos", files))


def write_table(embedding: Embedding, file: Path, rows: Any) -> Path:
    truth = {name[:3]: name for name in CLASSES}
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("filename", "label"))
        for row, name in enumerate(embedding.files):
            writer.writerow((name, truth[name[:3]] if row in rows else ""))
    return file


def read_rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_table_of_labels_classifies_all_pictures(embedding: Embedding, tmp_path: Path):
    table, out = write_table(embedding, tmp_path / "labels.csv", range(30)), tmp_path / "predictions.csv"
    made = hp.classify(embedding.folder, labels=table, csv=out, page=tmp_path / "p.html", save_to=tmp_path / "head")
    assert len(made) == 60
    truth = [next(name for name in CLASSES if name[:3] == file[:3]) for file in made.files]
    assert np.mean([one == other for one, other in zip(made.labels, truth, strict=True)]) > 0.9
    assert made.report is not None
    assert made.report.measured == 30
    assert [one.labels for one in made.report.classes] == [truth[:30].count(name) for name in CLASSES]
    rows = read_rows(out)
    assert tuple(rows[0]) == COLUMNS
    assert [row["filename"] for row in rows] == list(embedding.files)
    assert [row["label"] for row in rows] == list(made.labels)
    assert [row["given"] for row in rows] == truth[:30] + [""] * 30
    probabilities = load_head(tmp_path / "head").probabilities(embedding.vectors)
    order = np.sort(probabilities, axis=1)[:, ::-1]
    np.testing.assert_allclose([float(row["probability"]) for row in rows], order[:, 0], atol=1e-4)
    np.testing.assert_allclose([float(row["margin"]) for row in rows], order[:, 0] - order[:, 1], atol=1e-4)
    assert all(row["second"] != row["label"] for row in rows)


def test_the_page_shows_the_least_sure_of_each_class_without_a_label(
    embedding: Embedding, tmp_path: Path, browser: Any
):
    table = write_table(embedding, tmp_path / "labels.csv", range(30))
    made = hp.classify(embedding, labels=table, page=tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("h2").all_inner_texts() == list(CLASSES)
    for k in range(3):
        section = page.locator("section").nth(k)
        names = section.locator(".file").all_inner_texts()
        rows = [list(embedding.files).index(name) for name in names]
        wanted = [row for row in np.argsort(made.margins, kind="stable") if made.best[row, 0] == k and row >= 30]
        assert rows == wanted[: len(rows)]
        assert len(rows) == min(12, len(wanted))
        assert section.locator("img").count() == len(rows)
    page.close()


def test_a_head_classifies_another_embedding_and_labels_measure_it(embedding: Embedding, tmp_path: Path):
    table = write_table(embedding, tmp_path / "labels.csv", range(30))
    first = hp.classify(embedding, labels=table)
    again = hp.classify(embedding, head=first.head, labels=write_table(embedding, tmp_path / "few.csv", range(40, 47)))
    assert again.labels == first.labels
    assert again.report is None
    assert again.test is not None
    assert again.test.measured == 7
    assert "labels" not in next(again.test.lines())  # how many taught it is not known
    assert first.report is not None
    assert "labels" in next(first.report.lines())


def test_pictures_that_taught_a_head_do_not_measure_it(
    embedding: Embedding, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    table = write_table(embedding, tmp_path / "labels.csv", range(30))
    first = hp.classify(embedding, labels=table, save_to=tmp_path / "head")
    assert hp.classify(embedding, head=tmp_path / "head", labels=table).test is None
    assert any("30 pictures" in message for message in caplog.messages)
    files = [f"moved/{row}.png" for row in range(60)]
    moved = make_embedding(tmp_path / "moved", embedding.vectors, files=files, sha256=embedding.sha256)
    truth = list(first.labels[20:60])
    lines = [f"{file},{label}" for file, label in zip(files[20:], truth, strict=True)]
    (tmp_path / "other.csv").write_text("\n".join(["filename,label", *lines]))
    test = hp.classify(moved, head=tmp_path / "head", labels=tmp_path / "other.csv").test
    assert test is not None
    assert (test.measured, test.accuracy) == (30, 1.0)


def test_copies_of_what_taught_a_head_do_not_measure_it(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Labels are chance, so that only copies are known: they are held out together, and not counted apart."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(60, 30))
    known = [int(label) for label in random.permutation(60) % 3]
    rows = [*range(60), *range(60), *range(40)]  # everything twice, some of it a third time, for testing
    made = make_embedding(
        tmp_path,
        vectors[rows],
        labels=[f"class {known[row]}" for row in rows],
        splits=["train"] * 120 + ["test"] * 40,
        sha256=[hashlib.sha256(bytes([row])).hexdigest() for row in rows],
    )
    result = hp.classify(made, threads=1)
    assert result.report is not None
    assert result.report.accuracy < 0.6
    assert result.test is None
    assert any("40 pictures with a label are copies" in message for message in caplog.messages)


def test_predictions_are_no_labels(embedding: Embedding, tmp_path: Path):
    table, out = write_table(embedding, tmp_path / "labels.csv", range(30)), tmp_path / "predictions.csv"
    hp.classify(embedding, labels=table, csv=out)
    with pytest.raises(UserError, match="holds predictions"):
        hp.classify(embedding, labels=out)


def test_a_page_without_its_pictures_says_what_helps(
    embedding: Embedding, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    table, page = write_table(embedding, tmp_path / "labels.csv", range(30)), tmp_path / "page.html"
    moved = embedding.root.rename(tmp_path / "moved <b>")
    hp.classify(embedding, labels=table, page=page)
    [said] = caplog.messages
    assert "--images" in said
    gone = page.read_text().count("not there any more")
    assert f"{gone} of its {gone} pictures" in said
    caplog.clear()
    hp.classify(embedding, labels=table, page=page, images=moved)
    assert caplog.messages == []
    assert "not there any more" not in page.read_text()


def test_labels_that_the_head_does_not_know_are_not_counted(
    embedding: Embedding, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    head = hp.classify(embedding, labels=write_table(embedding, tmp_path / "labels.csv", range(60))).head
    (tmp_path / "other.csv").write_text(f"filename,label\n{embedding.files[0]},zebra\n")
    made = hp.classify(embedding, head=head, labels=tmp_path / "other.csv")
    assert made.test is None
    assert any("1 picture" in message for message in caplog.messages)


def test_folders_with_splits_teach_and_measure(tmp_path: Path):
    vectors, labels = blobs(90, 8, 3, spread=0.6)
    splits = ["train"] * 50 + ["val"] * 40
    made = hp.classify(make_embedding(tmp_path, vectors, labels=[CLASSES[k] for k in labels], splits=splits))
    assert made.report is not None
    assert made.test is not None
    assert (made.report.measured, made.test.measured) == (50, 40)
    assert made.test.accuracy == np.mean(made.best[50:, 0] == labels[50:])


def test_a_head_of_another_encoder_is_refused(embedding: Embedding, tmp_path: Path):
    head = hp.classify(embedding, labels=write_table(embedding, tmp_path / "labels.csv", range(60))).head
    other = make_embedding(tmp_path / "other", np.asarray(embedding.vectors), encoder="e" * 64)
    with pytest.raises(UserError, match="another encoder"):
        hp.classify(other, head=head)


def test_a_class_of_one_label_is_named(embedding: Embedding, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    names = list(embedding.files)
    lines = [f"{name},{'odd one' if row == 3 else name[:3]}" for row, name in enumerate(names[:20])]
    (tmp_path / "labels.csv").write_text("\n".join(["filename,label", *lines]))
    made = hp.classify(embedding, labels=tmp_path / "labels.csv")
    assert "odd one" in made.head.classes
    assert any("1 class has one label ('odd one')" in message for message in caplog.messages)


def test_one_class_is_refused(embedding: Embedding, tmp_path: Path):
    (tmp_path / "labels.csv").write_text(f"filename,label\n{embedding.files[0]},a\n{embedding.files[1]},a\n")
    with pytest.raises(UserError, match="two classes"):
        hp.classify(embedding, labels=tmp_path / "labels.csv")


def test_files_of_another_kind_are_not_written_over(embedding: Embedding, tmp_path: Path):
    table = write_table(embedding, tmp_path / "labels.csv", range(60))
    before = table.read_bytes()
    with pytest.raises(UserError, match="something else"):
        hp.classify(embedding, labels=table, csv=table)
    assert table.read_bytes() == before
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "encoder.safetensors").write_bytes(b"mine")
    with pytest.raises(UserError, match="another encoder"):
        hp.classify(embedding, labels=table, finetune=True, save_to=tmp_path / "run")
    with pytest.raises(UserError, match="where to save"):
        hp.classify(embedding, labels=table, finetune=True)


def test_an_embedding_that_is_half_written_is_no_folder_of_pictures(embedding: Embedding, tmp_path: Path):
    head = hp.classify(embedding, labels=write_table(embedding, tmp_path / "labels.csv", range(60))).head
    (tmp_path / "half" / "parts").mkdir(parents=True)
    (tmp_path / "half" / "parts" / "begun.json").write_text("{}")
    with pytest.raises(UserError, match="not finished"):
        hp.classify(tmp_path / "half", head=head)


def coloured(folder: Path, count: int, *, seed: int = 0) -> Path:
    """Two classes that any encoder tells apart: dark and light pictures."""
    random = np.random.default_rng(seed)
    for row in range(count):
        pixels = random.integers(0, 90, (16, 16, 3)) + 160 * (row % 2)
        path = folder / ("light" if row % 2 else "dark") / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def test_new_pictures_are_embedded_by_the_encoder_of_the_head(finished_run: Path, tmp_path: Path):
    known = hp.embed(finished_run, coloured(tmp_path / "known", 24), out=tmp_path / "emb", threads=1)
    hp.classify(known, save_to=tmp_path / "head", threads=1)
    new = coloured(tmp_path / "new", 10, seed=1)
    made = hp.classify(new, head=tmp_path / "head", csv=tmp_path / "out.csv", page=tmp_path / "out.html", threads=1)
    assert made.labels == tuple(name.partition("/")[0] for name in made.files)
    assert made.test is not None
    assert made.test.accuracy == 1
    flat = sorted(new.glob("dark/*"))[:3]
    (tmp_path / "list.txt").write_text("".join(f"{file}\n" for file in flat))
    listed = hp.classify(tmp_path / "list.txt", head=tmp_path / "head", vectors=tmp_path / "kept", threads=1)
    assert set(listed.labels) == {"dark"}
    assert len(hp.open_embedding(tmp_path / "kept")) == 3
    with pytest.raises(UserError, match=r"^pictures: 'nope' is unknown"):
        hp.classify("nope", head=tmp_path / "head", threads=1)


def test_fine_tuning_saves_an_encoder_and_a_head_where_it_is_better(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    known = hp.embed(finished_run, coloured(tmp_path / "known", 30), out=tmp_path / "emb", threads=1)
    out = tmp_path / "tuned"
    options: dict[str, Any] = {"finetune": True, "epochs": 1, "save_to": out, "threads": 1}
    kept = hp.classify(known, **options)
    assert "the linear head is kept" in kept.judgement  # both are always right
    assert load_head(out).fingerprint == known.encoder
    monkeypatch.setattr(tune_head.Trial, "better", True)
    made = hp.classify(known, **options)
    assert "is taken" in made.judgement
    assert made.head.fingerprint != known.encoder
    assert made.labels == tuple(name.partition("/")[0] for name in made.files)
    again = hp.embed(out, tmp_path / "known", out=tmp_path / "again", threads=1)
    assert np.array_equal(again.vectors, made.embedding.vectors)
    assert load_head(out).require_fits(again) is None
    before, after = load_encoder(finished_run).state_dict(), load_encoder(out).state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert hp.classify(tmp_path / "known", head=out, threads=1).labels == made.labels
    with pytest.raises(UserError, match="made these vectors"):
        hp.classify(made.embedding, **options)
    coloured(tmp_path / "known", 31)  # one more, which was not embedded
    new = hp.classify(known, **{**options, "epochs": 2})  # in place of the first
    assert new.files == tuple(known.files)
    assert load_head(out).require_fits(new.embedding) is None
    assert new.head.fingerprint != made.head.fingerprint
    card = (hp.export(out, to="torch", out=tmp_path / "export", head=out, threads=1).folder / "README.md").read_text()
    assert "Fine-tuned with labels" in card
    assert "logits = model(" in card
    hp.classify(new.embedding, save_to=out, threads=1)  # a head of the network that is there
    assert load_encoder(out)
    hp.classify(known, save_to=out, threads=1)  # one of another encoder
    assert {file.name for file in out.iterdir()} == {"head.json", "head.safetensors"}


def test_fine_tuning_without_pictures_or_second_labels_says_so(finished_run: Path, tmp_path: Path):
    known = hp.embed(finished_run, coloured(tmp_path / "known", 6), out=tmp_path / "emb", threads=1)
    (tmp_path / "labels.csv").write_text("filename,label\ndark/0.png,a\nlight/1.png,b\n")
    options: dict[str, Any] = {"finetune": True, "save_to": tmp_path / "tuned", "threads": 1}
    with pytest.raises(UserError, match="no class has two labels"):
        hp.classify(known, labels=tmp_path / "labels.csv", **options)
    (tmp_path / "known").rename(tmp_path / "moved")
    with pytest.raises(UserError, match="--images"):
        hp.classify(known, **options)
    with pytest.raises(UserError, match="images: there is no folder"):
        hp.classify(known, images=tmp_path / "nowhere", **options)
    assert "held out" in hp.classify(known, images=tmp_path / "moved", epochs=1, **options).judgement


def test_the_interval_of_a_difference_covers_it():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        hard = random.random(100)
        ours, theirs = hard + random.normal(0, 0.2, 100) < 0.7, hard + random.normal(0, 0.2, 100) < 0.6
        low, high = tune_head.interval_of_difference(ours, theirs)
        covered += low <= 0.0960 <= high  # the true difference, by 10⁷ draws
    assert 0.91 < covered / 400 < 0.98
