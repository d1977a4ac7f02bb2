"""What is chosen is what each rule says, and never what is labelled already."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from make_embedding import blobs, make_embedding
from sklearn.cluster import KMeans

import hardpair as hp
from hardpair.cli import select as command
from hardpair.embeddings import choices, clusters
from hardpair.embeddings.choices import Balls
from hardpair.embeddings.clusters import fit_centres, nearest_centre
from hardpair.embeddings.labels import read_labels
from hardpair.embeddings.select import COLUMNS
from hardpair.errors import UserError


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_labels(path, names, labels):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("filename", "label"), *zip(names, labels, strict=True)])
    return path


def test_clusters_are_as_tight_as_those_of_scikit_learn():
    points = unit(np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32))
    centres = fit_centres(torch.from_numpy(points), 20, np.random.default_rng(0)).numpy()
    distances = ((points[:, None] - centres) ** 2).sum(2)
    assert (nearest_centre(torch.from_numpy(points), torch.from_numpy(centres)).numpy() == distances.argmin(1)).all()
    reference = KMeans(20, n_init=5, random_state=0).fit(points).inertia_
    assert distances.min(1).sum() <= 1.03 * reference


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 5))
def test_no_more_clusters_than_points_that_differ(count, wanted, seed):
    points = torch.eye(12)[torch.arange(count) // 2]
    centres = fit_centres(points, wanted, np.random.default_rng(seed))
    assert 1 <= len(centres) <= min(wanted, (count + 1) // 2)
    if wanted >= (count + 1) // 2:
        assert torch.equal(centres[nearest_centre(points, centres)], points)


def test_typical_takes_the_densest_of_each_cluster_the_largest_first(tmp_path):
    vectors, truth = blobs(600, 16, 6, spread=0.2)
    keep = np.concatenate([np.flatnonzero(truth == k)[: 40 + 8 * k] for k in range(6)])
    vectors, truth = vectors[keep], truth[keep]
    chosen = hp.select(make_embedding(tmp_path, vectors), count=6, by="typical")
    assert truth[chosen.rows].tolist() == [5, 4, 3, 2, 1, 0]
    for choice in chosen.choices:
        members = np.flatnonzero(truth == truth[choice.row])
        similarity = unit(vectors[members]) @ unit(vectors[members]).T
        np.fill_diagonal(similarity, -np.inf)
        density = np.sort(similarity, axis=1)[:, -20:].mean(1)
        assert choice.row == members[density.argmax()]
        assert choice.score == pytest.approx(density.max(), abs=1e-5)
        assert choice.images == len(members)
        order = np.argsort(-similarity[density.argmax()])
        assert choice.alike == tuple(members[order[:6]])


def test_clusters_with_a_label_come_last(tmp_path):
    vectors, truth = blobs(300, 16, 6, spread=0.1)
    made = make_embedding(tmp_path, vectors)
    known = [int(np.flatnonzero(truth == k)[0]) for k in (0, 2, 3)]
    table = write_labels(tmp_path / "l.csv", [made.files[row] for row in known], "abc")
    for by in ("typical", "coverage"):
        chosen = hp.select(made, count=3, by=by, labels=table)
        assert set(truth[chosen.rows]) == {1, 4, 5}
        assert chosen.labelled == 3


def test_several_of_a_cluster_are_no_neighbours_of_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "MOST_CLUSTERS", 2)
    monkeypatch.setattr(choices, "NEIGHBOURS", 4)
    vectors, truth = blobs(200, 16, 2, spread=0.1)
    chosen = hp.select(make_embedding(tmp_path, vectors), count=10, by="typical")
    assert np.bincount(truth[chosen.rows]).tolist() == [5, 5]
    for choice in chosen.choices:
        assert not set(choice.alike) & {other.row for other in chosen.choices}
    everything = hp.select(chosen.embedding, count=500, by="typical")
    assert sorted(everything.rows) == list(range(200))


def test_of_large_clusters_and_sets_a_part_is_looked_at(tmp_path, monkeypatch):
    for name, value in (("LARGEST", 30), ("SEEN", 60)):
        monkeypatch.setattr(choices, name, value)
    monkeypatch.setattr(clusters, "SAMPLE", 50)
    monkeypatch.setattr(clusters, "PER_CLUSTER", 5)
    vectors, truth = blobs(400, 16, 4, spread=0.1)
    made = make_embedding(tmp_path, vectors)
    for by in ("typical", "coverage"):
        chosen = hp.select(made, count=4, by=by)
        assert sorted(truth[chosen.rows]) == [0, 1, 2, 3]
        images = sum(choice.images for choice in chosen.choices)
        assert images == 400 if by == "typical" else 100 <= images <= 400


def test_coverage_takes_the_one_that_most_uncovered_images_are_near_to(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(80, 4))
    made = make_embedding(tmp_path, vectors)
    chosen = hp.select(made, count=12, by="coverage")
    centred = unit(unit(made.vectors) - unit(made.vectors).mean(0))
    near = (similarity := centred @ centred.T) >= np.quantile(similarity, 1 - 0.5 / 12)
    covered = np.zeros(80, dtype=bool)
    for row in chosen.rows:
        gain = (near & ~covered).sum(1)
        if gain.max():
            assert gain[row] == gain.max()
        covered |= near[row]
    assert len(set(chosen.rows)) == 12


def test_when_all_is_covered_the_farthest_follow(tmp_path):
    made = make_embedding(tmp_path, blobs(60, 6, 4, spread=0.4)[0])
    balls = Balls(made, np.arange(60), 0.3)
    similarity = (balls.unit @ balls.unit.T).numpy()
    chosen = [balls.choose()[0] for _ in range(20)]
    covered = (similarity[chosen] >= balls.least).cumsum(0)  # by the first, by the first two …
    begin = 1 + int(np.flatnonzero(covered.all(1))[0])
    assert begin < 15
    for place in range(begin, 20):
        nearest = similarity[chosen[:place]].max(0)
        assert nearest[chosen[place]] == pytest.approx(nearest.min(), abs=1e-5)


def test_uncertain_are_those_between_two_classes(tmp_path):
    random = np.random.default_rng(0)
    ends = np.repeat(np.eye(2, 6), 60, axis=0) + 0.02 * random.normal(size=(120, 6))
    middle = np.full((30, 6), 0) + np.eye(6)[0] / 2 + np.eye(6)[1] / 2 + 0.02 * random.normal(size=(30, 6))
    made = make_embedding(tmp_path, np.concatenate([ends, middle]))
    table = write_labels(tmp_path / "l.csv", [made.files[row] for row in (0, 1, 2, 60, 61, 62)], "aaabbb")
    chosen = hp.select(made, count=5, by="uncertain", labels=table)
    assert sum(row >= 120 for row in chosen.rows) >= 4
    scores = [choice.score for choice in chosen.choices]
    assert scores == sorted(scores)
    assert all("a (" in choice.reason and "b (" in choice.reason for choice in chosen.choices)


@settings(max_examples=60)
@given(st.integers(1, 25), st.integers(1, 30), st.sampled_from(["typical", "coverage", "uncertain"]), st.data())
def test_each_image_at_most_once_and_none_with_a_label(tmp_path_factory, count, wanted, by, data):
    folder = tmp_path_factory.mktemp("emb")
    vectors = np.random.default_rng(count).normal(size=(count, 4)).round(1) + 2
    copies = data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    made = make_embedding(folder, vectors, sha256=[str(row) if row > 5 else "same" for row in copies])
    known = sorted(data.draw(st.sets(st.integers(0, count - 1), max_size=count - 1)))
    if by == "uncertain" and len(known) < 2:
        return
    table = (
        write_labels(folder / "l.csv", [made.files[row] for row in known], ("ab" * count)[: len(known)])
        if known
        else None
    )
    chosen = hp.select(made, count=wanted, by=by, labels=table, seed=count)
    assert not {*chosen.rows} & {*known}
    contents = [made.sha256[row] for row in [*chosen.rows]]
    assert len(contents) == len(set(contents))
    assert not set(contents) & {made.sha256[row] for row in known}
    assert chosen.rows == hp.select(made, count=wanted, by=by, labels=table, seed=count).rows


def test_of_images_with_splits_only_those_to_train_on(tmp_path):
    made = make_embedding(tmp_path, blobs(40, 4, 2)[0], splits=["train"] * 20 + ["test"] * 20)
    assert sorted(hp.select(made, count=50).rows) == list(range(20))


def test_the_table_is_filled_in_and_read_again(tmp_path):
    names = [f"<i>{row}\udcff.png" for row in range(30)]
    made = make_embedding(tmp_path / "emb", blobs(30, 4, 3)[0], files=names)
    table, page = tmp_path / "to-do.csv", tmp_path / "to-do.html"
    chosen = hp.select(made, count=5, out=table, page=page)
    with table.open(newline="", errors="surrogateescape") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert [row[0] for row in rows] == chosen.files
    assert {row[1] for row in rows} == {""}
    assert page.read_text().count("<section>") == 5
    assert "<i>" not in page.read_text()
    hp.select(made, count=4, out=table)  # nothing was filled in yet
    text = table.read_text(errors="surrogateescape").replace(".png,,", ".png,cat,", 2)
    table.write_text(text, errors="surrogateescape")
    assert list(read_labels(table).values()) == ["cat", "cat"]
    with pytest.raises(UserError, match="filled in"):
        hp.select(made, count=4, out=table)
    assert table.read_text(errors="surrogateescape") == text
    again = hp.select(made, count=28, labels=table)
    assert sorted(again.files) == sorted({*names} - {*read_labels(table)})


def test_mistakes_are_named(tmp_path):
    made = make_embedding(tmp_path / "emb", blobs(9, 4, 2)[0])
    one_class = write_labels(tmp_path / "one.csv", made.files[:2], "aa")
    all_of_it = write_labels(tmp_path / "all.csv", made.files, "aabbaabba")
    for options, word in (
        ({"count": 0}, "count"),
        ({"by": "size"}, "by"),
        ({"by": "uncertain"}, "--labels"),
        ({"by": "uncertain", "labels": one_class}, "two classes"),
        ({"labels": all_of_it}, "all 9 images"),
        ({"labels": write_labels(tmp_path / "other.csv", ["no.png"], "a")}, r"other\.csv"),
        ({"out": tmp_path / "x.txt"}, r"\.csv"),
        ({"images": tmp_path / "none"}, "images: there is no folder .*none"),
        ({"out": all_of_it}, r"all\.csv"),
    ):
        with pytest.raises(UserError, match=word):
            hp.select(made, **options)
    assert len(hp.select(made, count=3, labels=one_class).rows) == 3


def test_the_command_goes_on_where_labels_were_filled_in(tmp_path, capsys):
    made = make_embedding(tmp_path, blobs(30, 4, 3)[0])
    command.main([str(tmp_path), "--count", "4"])
    first = tmp_path / "select.csv"
    assert f"--labels {first}" in capsys.readouterr().out
    first.write_text(first.read_text().replace(".png,,", ".png,cat,"))
    command.main([str(tmp_path), "--count", "4", "--labels", str(first)])
    second = tmp_path / "select-2.csv"
    rows = [line.split(",")[0] for file in (first, second) for line in file.read_text().splitlines()[1:]]
    assert len(set(rows)) == 8
    assert set(rows) <= set(made.files)
    assert second.with_suffix(".html").exists()


def test_the_command_says_why_few_are_chosen(tmp_path, capsys):
    vectors = np.repeat(blobs(4, 4, 2)[0], 10, axis=0)
    made = make_embedding(tmp_path, vectors, sha256=[str(row // 10) for row in range(40)])
    command.main([str(tmp_path), "--count", "8"])
    assert "4 images of 40 chosen (typical)\nall others are copies of these\n" in capsys.readouterr().out
    table = write_labels(tmp_path / "l.csv", made.files[:1], "a")
    command.main([str(tmp_path), "--count", "8", "--labels", str(table)])
    assert "3 images of 39 chosen" in (out := capsys.readouterr().out)
    assert "copies of these or of labelled ones" in out
    command.main([str(tmp_path), "--count", "3"])
    assert "copies" not in capsys.readouterr().out


@pytest.mark.parametrize("save", ["\ufeff{}", "{}"], ids=["a mark", "semicolons"])
def test_a_table_that_a_spreadsheet_saved_is_left_alone(tmp_path, save):
    made = make_embedding(tmp_path, blobs(30, 4, 3)[0])
    command.main([str(tmp_path), "--count", "4"])
    first = tmp_path / "select.csv"
    text = save.format(first.read_text().replace(".png,,", ".png,cat,"))
    text = text if text.startswith("\ufeff") else text.replace(",", ";")
    first.write_text(text)
    command.main([str(tmp_path), "--count", "4", "--labels", str(first)])
    assert first.read_text() == text
    second = (tmp_path / "select-2.csv").read_text().splitlines()[1:]
    assert not {line.split(",")[0] for line in second} & {*read_labels(first)}
    assert len(second) == 4
    assert {line.split(",")[0] for line in second} <= {*made.files}


def test_pages_of_a_named_set_need_to_know_where_it_is_kept(finished_run, tmp_path, caplog):
    embedding = hp.embed(finished_run, "sample:60", out=tmp_path / "emb", threads=1)
    page = tmp_path / "page.html"
    hp.select(embedding, count=3, page=page, threads=1)
    assert "not there any more" not in page.read_text()
    assert caplog.messages == []
    embedding.manifest["images"]["source"] = "cifar10"
    hp.select(embedding, count=3, page=page, data_root=tmp_path / "none", threads=1)
    assert "not there any more" in page.read_text()
    assert any("none" in message and "page.html" in message for message in caplog.messages)
