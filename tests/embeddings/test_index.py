"""The approximate index finds what the exact search finds, belongs to its vectors, and is never trusted blindly."""

import sys

import numpy as np
import pytest
from make_embedding import blobs, make_embedding

import hardpair as hp
from hardpair.embeddings import index
from hardpair.embeddings.index import approximate_bank
from hardpair.embeddings.neighbours import Bank
from hardpair.errors import UserError

pytest.importorskip("usearch")


@pytest.fixture(autouse=True)
def built(monkeypatch):
    """How often an index was built."""
    times = []
    build = index._build
    monkeypatch.setattr(index, "_build", lambda embedding: times.append(1) or build(embedding))
    return times


def test_it_finds_nearly_all_with_exact_similarities(tmp_path):
    vectors, _ = blobs(3000, 24, 12, spread=0.5)
    made = make_embedding(tmp_path, vectors * np.random.default_rng(0).uniform(0.1, 9, (3000, 1)))
    queries = vectors[::10] + 0.1 * np.random.default_rng(1).normal(size=(300, 24)).astype(np.float32)
    similarity, rows = approximate_bank(made).nearest(queries, 10)
    expected, true = Bank(made).nearest(queries, 10)
    shared = [len({*found} & {*exact}) for found, exact in zip(rows.tolist(), true.tolist(), strict=True)]
    assert np.mean(shared) >= 9.9
    same = rows == true
    np.testing.assert_allclose(similarity[same], expected[same], atol=1e-6)
    assert (similarity.diff(dim=1) <= 0).all()


def test_it_is_built_once_and_again_for_other_vectors(tmp_path, built):
    vectors, _ = blobs(200, 8, 3)
    first = hp.search(make_embedding(tmp_path, vectors), "000005.png", index=True)
    again = hp.search(tmp_path, "000005.png", index=True)
    assert len(built) == 1
    assert first.rows.tolist() == again.rows.tolist()
    other = make_embedding(tmp_path, vectors[::-1])
    assert hp.search(other, "000005.png", index=True).rows.tolist() == hp.search(other, "000005.png").rows.tolist()
    assert len(built) == 2


@pytest.mark.parametrize("file", [index.FILE, index.FACTS])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_damaged_one_is_built_again(tmp_path, built, file, share):
    made = make_embedding(tmp_path, blobs(200, 8, 3)[0])
    approximate_bank(made)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: int(share * len(content))])
    found = hp.search(made, "000005.png", index=True)
    assert len(built) == 2
    assert found.rows.tolist() == hp.search(made, "000005.png").rows.tolist()
    assert not list(tmp_path.glob(".*"))


def test_more_than_there_are_and_copies_beyond_number(tmp_path):
    vectors = np.concatenate([np.ones((50, 4)), blobs(10, 4, 2)[0]])
    made = make_embedding(tmp_path, vectors)
    found = hp.search(made, ["000003.png", "000055.png"], k=100, index=True)
    exact = hp.search(made, ["000003.png", "000055.png"], k=100)
    assert [sorted(rows) for rows in found.rows.tolist()] == [sorted(rows) for rows in exact.rows.tolist()]


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(UserError, match=r"pip install 'hardpair\[index\]'"):
        hp.search(make_embedding(tmp_path, blobs(9, 4, 2)[0]), "000001.png", index=True)
