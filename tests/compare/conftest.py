"""A finished comparison in small, and the pictures it is made of."""

import contextlib
import io

import numpy as np
import pytest
from PIL import Image
from small_comparison import words

from hardpair import cli


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Noise in two classes that nothing tells apart: the linear classifier is quickly done with it."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for split, number in (("train", 150), ("test", 20)):
        for kind in ("heads", "tails"):
            (folder / split / kind).mkdir(parents=True)
            for place in range(number):
                pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / kind / f"{place}.png")
    return folder


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
