"""A map lays alike pictures together, keeps what it computed, and its page holds what it says."""

import base64
import csv
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_embedding import blobs, make_embedding, write_pictures

import hardpair as hp
from hardpair.embeddings.formats import write_format
from hardpair.embeddings.graph import Graph, neighbour_graph
from hardpair.embeddings.hard_pairs import hard_pairs
from hardpair.embeddings.map_page import SCRIPTS, bands, front_coded
from hardpair.embeddings.projection import (
    FILE,
    by_size,
    find_clusters,
    lay_out,
    principal_components,
    projection,
    read_projection,
)
from hardpair.embeddings.thumbnails import choose
from hardpair.errors import UserError


def page_json(page: Path, name: str):
    """Data of a page, read without a browser."""
    found = re.search(rf'<script type="application/json" id="{name}">([^<]*)</script>', page.read_text())
    return json.loads(found[1])


def test_alike_images_lie_together_and_in_one_cluster(tmp_path):
    vectors, labels = blobs(400, 16, 4, spread=0.1)
    embedding = make_embedding(tmp_path, vectors)
    laid = projection(embedding, neighbour_graph(embedding))
    apart = np.linalg.norm(laid.points[:, None] - laid.points[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argsort(axis=1)[:, :15]
    assert (labels[nearest] == labels[:, None]).mean() > 0.99
    for cluster in range(laid.clusters.max() + 1):
        assert len(set(labels[laid.clusters == cluster])) == 1
    assert (laid.clusters >= 0).mean() > 0.5
    again = lay_out(embedding, neighbour_graph(embedding))
    assert np.array_equal(again, laid.points)  # seeded
    for cluster, rows in enumerate(laid.typical(embedding)):
        inside = np.flatnonzero(laid.clusters == cluster)
        nearness = embedding.unit_vectors(inside) @ embedding.unit_vectors(inside).mean(axis=0)
        assert rows == inside[np.argsort(-nearness, kind="stable")[:3]].tolist()


def test_the_layout_says_how_far_it_is_and_stays_the_same(tmp_path, monkeypatch, capsys):
    embedding = make_embedding(tmp_path, blobs(40, 4, 2)[0])
    graph = neighbour_graph(embedding)
    monkeypatch.setattr("hardpair.data.progress.QUIET_SECONDS", 0)
    monkeypatch.setattr("hardpair.data.progress.LINE_SECONDS", 0)
    points = lay_out(embedding, graph)
    shares = [
        int(share) for share in re.findall(r"^layout: (\d+)%  left \d+ s$", capsys.readouterr().err, re.MULTILINE)
    ]
    assert shares == sorted(shares)
    assert shares[-1] == 100

    import umap.umap_

    own = umap.umap_.simplicial_set_embedding

    def silent(*args, **options):
        return own(*args, **{**options, "tqdm_kwds": None})

    monkeypatch.setattr(umap.umap_, own.__name__, silent)
    assert np.array_equal(points, lay_out(embedding, graph))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")  # when it runs alone
def test_as_trustworthy_as_umap_learn_itself(sample_embedding):
    from sklearn.manifold import trustworthiness
    from umap import UMAP

    vectors = sample_embedding.unit_vectors()
    graph = neighbour_graph(sample_embedding)
    with pytest.warns(UserWarning, match="n_jobs"):  # it says that a seed means one thread
        own = UMAP(metric="cosine", random_state=0).fit_transform(vectors)
    ours, theirs = (
        trustworthiness(vectors, points, n_neighbors=15, metric="cosine")
        for points in (lay_out(sample_embedding, graph), own)
    )
    begin = trustworthiness(vectors, principal_components(sample_embedding), n_neighbors=15, metric="cosine")
    assert ours >= theirs - 0.01
    assert ours > begin


def test_principal_components_are_those_of_the_unit_vectors(tmp_path):
    embedding = make_embedding(tmp_path, blobs(200, 6, 3)[0])
    unit = embedding.unit_vectors()
    centred = unit - unit.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ axes[:2].T
    points = principal_components(embedding)
    for axis in range(2):
        assert abs(np.corrcoef(points[:, axis], expected[:, axis])[0, 1]) > 0.9999
    assert 9.9 < np.abs(points).max() < 10.1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("same", [False, True])
def test_few_images_and_copies_have_places(tmp_path, count, same):
    vectors = np.ones((count, 5), np.float32) if same else blobs(count, 5, 2)[0]
    embedding = make_embedding(tmp_path, vectors)
    graph = neighbour_graph(embedding)
    laid = projection(embedding, graph)
    assert laid.points.shape == (count, 2)
    assert np.isfinite(laid.points).all()
    assert len(np.unique(laid.points, axis=0)) == count
    found = hard_pairs(embedding, graph)
    assert found.rows.shape == (count, min(8, count - 1))


def test_a_map_is_made_once_and_again_when_vectors_change(tmp_path):
    embedding = make_embedding(tmp_path, blobs(30, 4, 2)[0])
    graph = neighbour_graph(embedding)
    made = projection(embedding, graph)
    assert np.array_equal(read_projection(embedding).points, made.points)
    content = (tmp_path / FILE).read_bytes()
    other = make_embedding(tmp_path, blobs(30, 4, 2, seed=1)[0])
    assert read_projection(other) is None
    make_embedding(tmp_path, blobs(30, 4, 2)[0])
    (tmp_path / FILE).write_bytes(content[: len(content) // 2])
    assert read_projection(embedding) is None


@pytest.mark.parametrize("bad", [{"cluster": 30}, {"cluster": -2}, {"x": np.nan}, {"y": np.inf}])
def test_a_map_with_impossible_values_is_not_believed(tmp_path, bad):
    embedding = make_embedding(tmp_path, blobs(30, 4, 2)[0])
    columns = {"x": np.zeros(30, "f4"), "y": np.zeros(30, "f4"), "cluster": np.zeros(30, "i4")}
    for name, value in bad.items():
        columns[name][7] = value
    np.savez(tmp_path / FILE, vectors=np.array(embedding.manifest["vectors_sha256"]), **columns)
    assert read_projection(embedding) is None


def test_clusters_are_numbered_by_size():
    assert by_size(np.array([2, 2, -1, 0, 0, 0, 5])).tolist() == [1, 1, -1, 0, 0, 0, 2]
    assert by_size(np.full(4, -1)).tolist() == [-1] * 4


@pytest.mark.slow
def test_clusters_of_many_points_are_found_as_those_of_few(monkeypatch):
    """Two libraries, one algorithm; fast-hdbscan compiles for seconds."""
    points, labels = blobs(3000, 2, 9, spread=0.05)
    few = find_clusters(points)
    monkeypatch.setattr("hardpair.embeddings.projection.SOON", 100)
    many = find_clusters(points)
    for found in (few, many):
        assert (found >= 0).mean() > 0.3
        for cluster in range(found.max() + 1):
            assert len(set(labels[found == cluster])) == 1
    both = (few >= 0) & (many >= 0)
    assert len({*zip(few[both].tolist(), many[both].tolist(), strict=True)}) <= 1.5 * (few.max() + 1)


def test_hard_pairs_follow_the_equations(tmp_path):
    """Eq. 2, 3 and 5, one pair after the other."""
    vectors = np.abs(blobs(40, 6, 3)[0])
    embedding = make_embedding(tmp_path, vectors)
    found = hard_pairs(embedding, neighbour_graph(embedding))
    for row in range(40):
        apart = {
            other: float(sum((vectors[row] / vectors[row].max() - vectors[other] / vectors[other].max()) ** 2))
            for other in neighbour_graph(embedding).rows[row]
        }
        nearest = sorted(apart.values())[:8]
        np.testing.assert_allclose(found.distance[row], nearest, rtol=1e-4)
        np.testing.assert_allclose([apart[other] for other in found.rows[row]], nearest, rtol=1e-4)
    assert found.mined[:, :4].all(axis=1).mean() >= 0.5
    assert not found.mined.all()


@given(st.lists(st.text(max_size=70), max_size=20))
def test_front_coded_names_come_back(names):
    before, unpacked = "", []
    for name in front_coded(names):
        before = before[: ord(name[0]) - 48] + name[1:]
        unpacked.append(before)
    assert unpacked == names


def test_front_coding_never_counts_letters_that_javascript_counts_twice():
    assert front_coded(["😀a.png", "😀b.png", "aé.png", "aé2.png"]) == ["0😀a.png", "0😀b.png", "0aé.png", "22.png"]


def test_bands_are_shares_of_all():
    scores = np.random.default_rng(0).permutation(1000).astype(np.float32)
    found = bands(scores)
    assert np.bincount(found).tolist() == [500, 300, 150, 40, 10]
    assert scores[found == 4].min() == 990


def test_a_sample_of_thumbnails_is_spread_and_holds_the_typical(tmp_path):
    points = np.random.default_rng(0).random((5000, 2), dtype=np.float32)
    rows = choose(points, 500, first=[17, 4000, 17])
    assert len(rows) == len(set(rows.tolist())) == 500
    assert {17, 4000} <= set(rows.tolist())
    squares, tally = np.unique((points[rows] * 5).astype(int), axis=0, return_counts=True)
    assert len(squares) == 25
    assert tally.min() > 8  # of 20
    steps = np.linalg.norm(np.diff(points[rows], axis=0), axis=1)
    assert np.median(steps) < 0.1  # those that lie together follow each other
    assert sorted(choose(points[:40], 500, [1])) == list(range(40))


def test_the_page_says_what_it_holds(tmp_path, caplog):
    names = [f"a/{row}.png" for row in range(20)]
    write_pictures(tmp_path / "photos", names[:15])
    embedding = make_embedding(
        tmp_path / "emb", blobs(20, 4, 2)[0], files=names, labels=["x", None] * 10, root=tmp_path / "photos"
    )
    page = hp.map(embedding)
    assert page == tmp_path / "emb" / "map.html"
    meta = page_json(page, "meta")
    assert meta["count"] == 20
    assert meta["classes"] == ["x"]
    assert meta["thumbs"]["count"] == 15
    assert "5 pictures could not be read." in meta["limits"]
    photos = tmp_path / "photos"
    where = f"say with --images where those of {photos} are now"
    assert caplog.messages == [f"{page}: 5 of its 20 pictures could not be read; {where}"]
    few = hp.map(embedding, thumbnails=6, out=tmp_path / "few.html", images=photos, threads=1)
    assert page_json(few, "meta")["thumbs"]["count"] <= 6
    assert "of 20, spread" in page_json(few, "meta")["limits"]
    none = hp.map(str(embedding.folder), thumbnails=0, out=tmp_path / "none.htm")
    assert page_json(none, "meta")["thumbs"]["count"] == 0


def test_nothing_in_the_page_may_ask_the_network_or_run_but_the_script(tmp_path):
    text = hp.map(make_embedding(tmp_path, blobs(5, 4, 2)[0])).read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#x27;", "'")
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
    assert not re.search(r"https?://|//[a-z0-9-]+\.[a-z]", text)


def test_modules_of_the_script_are_short_and_all_used():
    folder = Path(hp.__file__).parent / "report" / "map"
    assert {file.stem for file in folder.glob("*.js")} == set(SCRIPTS)
    for file in folder.glob("*.js"):
        assert len(file.read_text().splitlines()) <= 350, file


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"out": "there"}, "there"),
        ({"out": "map.txt"}, "map.txt"),
        ({"out": "no/map.html"}, "no"),
        ({"images": "nowhere"}, "nowhere"),
        ({"thumbnails": -1}, "thumbnails"),
    ],
)
def test_options_that_cannot_be_are_refused_before_any_work(tmp_path, monkeypatch, options, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    make_embedding(tmp_path / "emb", blobs(5, 4, 2)[0])
    with pytest.raises(UserError, match=named):
        hp.map("emb", **options)
    assert not (tmp_path / "emb" / FILE).exists()


def test_other_programs_get_the_coordinates(tmp_path):
    embedding = make_embedding(tmp_path, blobs(12, 4, 2)[0])
    write_format(embedding, "csv")
    assert "x" not in (tmp_path / "embedding.csv").read_text().splitlines()[0].split(",")
    hp.map(embedding)
    rows = list(csv.DictReader((tmp_path / "embedding.csv").read_text().splitlines()))
    laid = read_projection(embedding)
    assert [np.float32(row["x"]) for row in rows] == laid.points[:, 0].tolist()
    assert [int(row["cluster"]) for row in rows] == laid.clusters.tolist()
    assert not (tmp_path / "embedding.parquet").exists()


def test_outlier_scores_need_no_neighbours():
    assert bands(Graph(np.empty((1, 0), "f4"), np.empty((1, 0), "i8")).outlier_scores()).tolist() == [0]


@pytest.mark.slow
def test_from_the_command_line(hardpair, tmp_path):
    make_embedding(tmp_path / "emb", blobs(12, 4, 2)[0])
    done = hardpair("map", "emb", "--out", "page.html", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "page.html" in done.stdout
    assert (tmp_path / "page.html").is_file()
    again = hardpair("map", "emb", "--out", "page")
    assert again.returncode == 2
    assert len(again.stderr.splitlines()) == 1
