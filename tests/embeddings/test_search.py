"""What is found is what a slow search from the definition finds, whatever the query is."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_embedding import blobs, make_embedding, write_pictures

import hardpair as hp
from hardpair.cli import search as command
from hardpair.embeddings import neighbours
from hardpair.embeddings.neighbours import Bank
from hardpair.errors import UserError

NAMES = [f"{folder}/{number}.png" for folder in ("cats", "dogs") for number in range(6)]


def cosines(queries: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """From the definition, in double precision; zero where a vector is zero."""
    queries, bank = np.asarray(queries, np.float64), np.asarray(bank, np.float64)
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(bank, axis=1)
    return np.divide(queries @ bank.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)


@pytest.fixture(scope="module")
def album(finished_run, tmp_path_factory):
    """Twelve pictures in two folders, embedded."""
    folder = write_pictures(tmp_path_factory.mktemp("album") / "photos", NAMES)
    return hp.embed(finished_run, folder, out=folder.parent / "emb", threads=1)


@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 12), st.sampled_from(["float32", "float16"]), st.data())
def test_the_nearest_are_those_of_the_definition(tmp_path_factory, count, asked, k, dtype, data):
    vectors = np.random.default_rng(count).normal(size=(count, 6)).round(2)
    vectors[0] *= data.draw(st.sampled_from([0, 1, 100]))
    bank = Bank(made := make_embedding(tmp_path_factory.mktemp("emb"), vectors, dtype=dtype))
    own = data.draw(st.none() | st.integers(0, max(count - asked, 0)))
    queries = made.vectors[own : own + asked] if own is not None else np.random.default_rng(k).normal(size=(asked, 6))
    expected = cosines(queries, made.vectors)
    if own is not None:
        expected[np.arange(len(queries)), own + np.arange(len(queries))] = -np.inf
    similarity, rows = (found.numpy() for found in bank.nearest(np.asarray(queries, np.float32), k, own=own))
    assert rows.shape == (len(queries), min(k, count - (own is not None)))
    np.testing.assert_allclose(similarity, -np.sort(-expected, axis=1)[:, : rows.shape[1]], atol=1e-6)
    np.testing.assert_allclose(similarity, np.take_along_axis(expected, rows, 1), atol=1e-6)
    assert all(len(set(row)) == len(row) for row in rows.tolist())


def test_tiles_change_nothing(tmp_path, monkeypatch):
    vectors, _ = blobs(300, 8, 4)
    bank = Bank(make_embedding(tmp_path, vectors, dtype="float16"))
    whole, one = bank.nearest(vectors[:9], 20), bank.nearest(vectors[3:4], 20)
    monkeypatch.setattr(neighbours, "TILE", 7)
    monkeypatch.setattr(neighbours, "HALF_TILE", 7)
    monkeypatch.setattr(neighbours, "QUERIES", 2)
    again = (*bank.nearest(vectors[:9], 20), *bank.nearest(vectors[3:4], 20))
    for before, after in zip((*whole, *one), again, strict=True):
        np.testing.assert_allclose(before, after, atol=1e-6)


def test_an_image_by_its_name_does_not_find_itself(album):
    found = hp.search(album, ["cats/3.png", "dogs/0.png"], k=4)
    assert found.queries == ("cats/3.png", "dogs/0.png")
    expected = cosines(album.vectors[[3, 6]], album.vectors)
    expected[[0, 1], [3, 6]] = -1
    assert found.rows.tolist() == np.argsort(-expected, axis=1)[:, :4].tolist()
    assert found.files[0] == tuple(album.files[row] for row in found.rows[0])


def test_the_end_of_a_name_is_enough_where_only_one_has_it(tmp_path):
    made = make_embedding(tmp_path, blobs(4, 3, 2)[0], files=["a/x/1.png", "b/x/1.png", "b/2.png", "b/42.png"])
    assert hp.search(made, "2.png").queries == ("b/2.png",)
    assert hp.search(made, "b/x/1.png").queries == ("b/x/1.png",)
    with pytest.raises(UserError, match=r"a/x/1\.png.*b/x/1\.png"):
        hp.search(made, "x/1.png")
    with pytest.raises(UserError, match=r"did you mean b/42\.png"):
        hp.search(made, "b/43.png")


def test_a_picture_from_elsewhere_finds_its_copy(album, tmp_path):
    shutil.copy(album.root / "dogs/4.png", tmp_path / "unknown.png")
    found = hp.search(album, tmp_path / "unknown.png", k=20, threads=1)
    assert found.rows.shape == (1, 12)
    assert album.files[found.rows[0, 0]] == "dogs/4.png"
    assert found.similarity[0, 0] == pytest.approx(1, abs=1e-5)


def test_a_picture_of_the_embedding_by_its_path_is_that_image(album, tmp_path, monkeypatch):
    monkeypatch.chdir(album.root)
    for query in (album.root / "dogs/4.png", "dogs/4.png", "./dogs/../dogs/4.png"):
        found = hp.search(album, query, k=20, encoder="/not/needed")
        assert found.queries == ("dogs/4.png",)
        assert found.rows.shape == (1, 11)
        assert album.files.index("dogs/4.png") not in found.rows
    shutil.copytree(album.root, tmp_path / "moved")
    query = tmp_path / "moved/dogs/4.png"
    assert hp.search(album, query, images=os.path.relpath(tmp_path / "moved")).queries == ("dogs/4.png",)


def test_a_folder_of_pictures_with_a_broken_one(album, tmp_path):
    write_pictures(tmp_path, ["1.png", "2.png"], seed=3)
    (tmp_path / "3.png").write_bytes(b"no picture")
    found = hp.search(album, tmp_path, k=2, threads=1)
    assert [Path(query).name for query in found.queries] == ["1.png", "2.png"]
    assert "3.png" in found.asked[0].broken[0]
    found.write_page(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<img") == 2 * 3


def test_an_encoder_that_moved_is_asked_for(finished_run, album, tmp_path):
    run = shutil.copytree(finished_run, tmp_path / "run")
    made = hp.embed(run, album.root, out=tmp_path / "emb", threads=1)
    query = write_pictures(tmp_path, ["1.png"]) / "1.png"
    run.rename(tmp_path / "moved")
    with pytest.raises(UserError, match="--encoder"):
        hp.search(made, query)
    assert hp.search(made, query, encoder=tmp_path / "moved", threads=1).rows.shape == (1, 10)


def test_another_encoder_is_refused(album, tmp_path):
    query = write_pictures(tmp_path, ["1.png"]) / "1.png"
    other = make_embedding(tmp_path / "other", np.asarray(album.vectors), encoder="0" * 64)
    with pytest.raises(UserError, match="another encoder"):
        hp.search(album, other.folder)
    with pytest.raises(UserError, match="encoder"):
        hp.search(make_embedding(tmp_path / "emb", np.asarray(album.vectors)), query)


def test_leaks_between_two_sets_come_first(tmp_path):
    vectors, _ = blobs(60, 16, 3)
    train = make_embedding(tmp_path / "train", vectors[:40])
    test = make_embedding(tmp_path / "test", np.concatenate([vectors[40:], vectors[[7, 21]] * 3]))
    found = hp.search(train, test.folder, k=3)
    assert {(found.queries[place], int(found.rows[place, 0])) for place in (0, 1)} == {
        ("000020.png", 7),
        ("000021.png", 21),
    }
    assert (np.diff(found.similarity[:, 0]) <= 0).all()
    assert len(found.table()) == 1 + 22  # the nearest of each
    itself = hp.search(train, train.folder, k=3)
    assert not any(query in files for query, files in zip(itself.queries, itself.files, strict=True))


def test_copies_beyond_number_do_not_bring_the_query_back(tmp_path):
    made = make_embedding(tmp_path, np.ones((30, 4)))
    found = hp.search(made, "000029.png", k=5)
    assert len(set(found.rows[0].tolist()) - {29}) == 5
    alone = hp.search(make_embedding(tmp_path / "one", np.ones((1, 4))), "000000.png")
    assert alone.rows.shape == (1, 0)
    assert "no other image" in "".join(alone.table())


def test_table_and_page_survive_any_name(tmp_path):
    names = ["<script>alert(1)</script>.png", "b\udcff.png", "c\n.png"]
    made = make_embedding(tmp_path, blobs(3, 4, 2)[0], files=names, labels=["<b>", "x", "x"])
    found = hp.search(made, names[0], k=2, csv=tmp_path / "found.csv", page=tmp_path / "found.html")
    with (tmp_path / "found.csv").open(newline="", errors="surrogateescape") as file:
        rows = list(csv.DictReader(file))
    assert [row["filename"] for row in rows] == list(found.files[0])
    assert {row["query"] for row in rows} == {names[0]}
    assert [row["rank"] for row in rows] == ["1", "2"]
    page = (tmp_path / "found.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("not there any more") == 3
    assert all(line.isprintable() for line in found.table())


def test_pictures_that_are_gone_are_counted(album, tmp_path, caplog):
    """Those found and the queries, be they of this embedding or of another."""
    names = ["a.png", "b.png", "c.png"]
    other = make_embedding(tmp_path / "other", album.vectors[:3] + 0.1, files=names, encoder=album.encoder)
    page = tmp_path / "page.html"
    hp.search(album, "cats/3.png", k=4, page=page, images=write_pictures(tmp_path / "now", ["cats/3.png"]))
    [said] = caplog.messages
    assert f"page.html: 4 of its 5 pictures could not be read; say with --images where those of {tmp_path}" in said
    assert page.read_text().count("<img") == 1
    caplog.clear()
    hp.search(album, other.folder, k=1, page=page)
    assert caplog.messages == [f"{page}: 3 of its 3 queries are pictures that could not be read"]


def test_a_set_that_is_gone_is_missed_on_the_page_only(album, tmp_path, caplog):
    made = make_embedding(tmp_path / "emb", album.vectors + 0.1, encoder=album.encoder)
    made.manifest["images"].update(kind="pixels", source="cifar10")
    (tmp_path / "none/cifar-10-batches-bin").mkdir(parents=True)
    assert hp.search(made, "000003.png", k=4).rows.shape == (1, 4)
    assert caplog.messages == []
    hp.search(made, "000003.png", k=4, page=tmp_path / "page.html", data_root=tmp_path / "none")
    assert f"5 of its 5 pictures could not be read; {tmp_path / 'none'}" in caplog.messages[0]
    caplog.clear()
    (tmp_path / "emb/manifest.json").write_text(json.dumps(made.manifest))
    hp.search(album, made.folder, k=1, page=tmp_path / "page.html", data_root=tmp_path / "none")
    assert caplog.messages == [f"{tmp_path / 'page.html'}: 12 of its 12 queries are pictures that could not be read"]


@pytest.mark.parametrize("option", [{"csv": "found.csv"}, {"page": "found.html"}, {"csv": "found.txt"}])
def test_a_file_of_another_kind_is_not_overwritten(tmp_path, option):
    made = make_embedding(tmp_path, blobs(9, 4, 2)[0])
    ((name, file),) = option.items()
    (tmp_path / file).write_text("mine")
    with pytest.raises(UserError, match=file):
        hp.search(made, "000001.png", **{name: tmp_path / file})
    assert (tmp_path / file).read_text() == "mine"


def test_mistakes_are_named(tmp_path):
    made = make_embedding(tmp_path / "emb", blobs(9, 4, 2)[0])
    mistakes = (({"k": 0}, "k:"), ({"csv": tmp_path / "none/x.csv"}, "none"), ({"images": "none"}, "no folder none"))
    for options, word in mistakes:
        with pytest.raises(UserError, match=word):
            hp.search(made, "000001.png", **options)
    with pytest.raises(UserError, match="queries"):
        hp.search(made, [])
    (tmp_path / "half/parts").mkdir(parents=True)
    with pytest.raises(UserError, match="not finished"):
        hp.search(made, tmp_path / "half")


def test_the_command_prints_a_table_and_writes_the_page(album, capsys, tmp_path):
    command.main([str(album.folder), "cats/1.png", "-k", "3", "--csv", str(tmp_path / "all.csv")])
    out = capsys.readouterr().out.splitlines()
    expected = hp.search(album, "cats/1.png", k=3)
    assert [line.split()[1] for line in out[1:4]] == list(expected.files[0])
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 4
    assert (album.folder / "search.html").read_text().count("<img") == 4


def test_the_page_shows_its_pictures(album, tmp_path, browser):
    hp.search(album, ["cats/1.png", "dogs/2.png"], k=5, page=tmp_path / "found.html")
    page = browser.new_page(offline=True)
    page.goto((tmp_path / "found.html").as_uri())
    for image in page.locator("img").all():
        image.scroll_into_view_if_needed()
    widths = page.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
    assert widths == [128] * 12
    page.close()


@pytest.mark.slow
def test_a_user_sees_one_line_for_a_mistake(hardpair, tmp_path):
    make_embedding(tmp_path / "emb", blobs(9, 4, 2)[0])
    done = hardpair("search", "emb", "000009.png")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "000009.png" in done.stderr
