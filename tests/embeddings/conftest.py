"""What the tests of the verbs on embeddings begin with."""

from pathlib import Path

import pytest

import hardpair as hp
from hardpair.embeddings.embedding import Embedding


@pytest.fixture(scope="session")
def sample_embedding(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Embedding:
    """Of 600 bundled photos, made by a real encoder; no test changes its folder."""
    return hp.embed(finished_run, "sample:600", out=tmp_path_factory.mktemp("embeddings") / "sample", threads=1)
