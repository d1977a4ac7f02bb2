"""Finished sweeps in small, and the pictures they are made of."""

import contextlib
import io

import pytest
from noise_photos import write_photos
from small_sweeps import SEEDS, ablate_words, compare_words

from hardpair.cli.ablate import main as ablate
from hardpair.cli.compare import main as compare


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def compared(photos, tmp_path_factory):
    """A comparison that no test changes."""
    out = tmp_path_factory.mktemp("compare")
    (out / "said.txt").write_text(_said(compare, compare_words(photos, out), tmp_path_factory))
    return out


@pytest.fixture(scope="session")
def ablated(photos, tmp_path_factory):
    """The ablation of mining, in a folder that no test changes."""
    out = tmp_path_factory.mktemp("ablate")
    (out / "mining.txt").write_text(_said(ablate, ablate_words("mining", photos, out), tmp_path_factory))
    return out


@pytest.fixture(scope="session")
def ablated_all(photos, ablated, tmp_path_factory):
    """All three in that folder. Drawing takes longest, so only mining is drawn."""
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        for which in SEEDS.keys() - {"mining"}:
            said = _said(ablate, ablate_words(which, photos, ablated), tmp_path_factory)
            (ablated / f"{which}.txt").write_text(said)
    return ablated


def _said(verb, words, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setenv("HARDPAIR_CACHE", str(tmp_path_factory.mktemp("cache")))
        assert verb(words) == 0
    return said.getvalue()


def draw_nothing(patch):
    patch.setattr("hardpair.sweep.compare.draw_comparison", lambda *_: {})
    patch.setattr("hardpair.sweep.ablate.draw_ablation", lambda *_: {})


@pytest.fixture
def _no_figure(monkeypatch):
    """Drawing is what takes longest."""
    draw_nothing(monkeypatch)
