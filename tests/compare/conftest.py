"""A finished comparison in small, and the pictures it is made of."""

import contextlib
import io

import pytest
from noise_photos import write_photos
from small_comparison import words

from hardpair import cli


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def finished(photos, tmp_path_factory):
    """A comparison that no test changes."""
    out, said = tmp_path_factory.mktemp("compare"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setenv("HARDPAIR_CACHE", str(tmp_path_factory.mktemp("cache")))
        assert cli.compare(words(photos, out)) == 0
    (out / "said.txt").write_text(said.getvalue())
    return out


@pytest.fixture
def _no_figure(monkeypatch):
    """Drawing is what takes longest."""
    monkeypatch.setattr("hardpair.compare.run.draw", lambda *_: {})
