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
    """All three in one folder, that no test changes. Drawing takes longest, so only mining is drawn, and once."""
    out, cache = tmp_path_factory.mktemp("ablate"), tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARDPAIR_CACHE", str(cache))
        for which in SEEDS:
            with patch.context() as quick, contextlib.redirect_stdout(io.StringIO()) as said:
                quick.setattr("hardpair.ablate.run.draw", lambda *_: {})
                assert cli.ablate(words(which, photos, out)) == 0
            (out / f"{which}.txt").write_text(said.getvalue())
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.ablate(words("mining", photos, out)) == 0
    return out


@pytest.fixture
def _no_figure(monkeypatch):
    """Drawing is what takes longest."""
    monkeypatch.setattr("hardpair.ablate.run.draw", lambda *_: {})
