"""Finished ablations in small, in one folder, and the pictures they are made of."""

import contextlib
import io

import pytest
from noise_photos import write_photos
from small_ablation import SEEDS, words

from hardpair import cli


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def finished(photos, tmp_path_factory):
    """The ablation of mining, in a folder that no test changes."""
    out = tmp_path_factory.mktemp("ablate")
    _ablate("mining", photos, out, tmp_path_factory.mktemp("cache"))
    return out


@pytest.fixture(scope="session")
def finished_all(photos, finished, tmp_path_factory):
    """All three in that folder. Drawing takes longest, so only mining is drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardpair.ablate.run.draw", lambda *_: {})
        for which in SEEDS.keys() - {"mining"}:
            _ablate(which, photos, finished, tmp_path_factory.mktemp("cache"))
    return finished


def _ablate(which, photos, out, cache):
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setenv("HARDPAIR_CACHE", str(cache))
        assert cli.ablate(words(which, photos, out)) == 0
    (out / f"{which}.txt").write_text(said.getvalue())


@pytest.fixture
def _no_figure(monkeypatch):
    """Drawing is what takes longest."""
    monkeypatch.setattr("hardpair.ablate.run.draw", lambda *_: {})
