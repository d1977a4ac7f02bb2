"""The cache of decoded pixels, when somebody else wrote into it: decoded anew, and no code is run."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile import BAD_NPY, DEEP, STEEP, Trap, trap

from hardpair.data.folder import read_folder

Paint = Callable[..., Path]


@pytest.fixture
def pictures(root: Path, paint: Paint) -> Path:
    for red in (0, 50, 100):
        paint(f"{red:03}.png", (red, 0, 0), size=(16, 16))
    assert read_folder(root, "train", 16).size == 16
    return root


def still_right(pictures: Path) -> bool:
    return read_folder(pictures, "train", 16).pixels[:, 0, 0, 0].tolist() == [0, 50, 100]


def entry(cache: Path, suffix: str) -> Path:
    return next(cache.glob(f"*{suffix}"))


@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_a_pickle_runs_no_code(pictures: Path, cache: Path, suffix: str) -> None:
    content, canary = trap(cache)
    entry(cache, suffix).write_bytes(content)
    assert still_right(pictures)
    assert not canary.exists()


def test_an_array_of_objects_runs_no_code(pictures: Path, cache: Path) -> None:
    canary = cache.parent / "canary"
    objects = np.array([Trap(canary)] * 3, dtype=object)
    np.save(entry(cache, ".npy"), objects, allow_pickle=True)
    assert still_right(pictures)
    assert not canary.exists()


@pytest.mark.parametrize("case", BAD_NPY)
def test_strange_arrays(pictures: Path, cache: Path, case: str) -> None:
    entry(cache, ".npy").write_bytes(BAD_NPY[case])
    assert still_right(pictures)


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        STEEP,
        '{"rows": [0.0, 1.0, 2.0], "skipped": []}',
        '{"rows": [false, true, 2], "skipped": []}',
        '{"rows": [[0], [1], [2]], "skipped": []}',
        '{"rows": [0, 1], "skipped": [2]}',
        '{"rows": [1e400, 1, 2], "skipped": []}',
        '{"rows": "012", "skipped": []}',
        '{"rows": null, "skipped": {}}',
        " " * 2_000_000,
    ],
)
def test_strange_facts(pictures: Path, cache: Path, content: str) -> None:
    entry(cache, ".json").write_text(content)
    assert still_right(pictures)


def test_reasons_are_fit_for_a_terminal(pictures: Path, cache: Path) -> None:
    entry(cache, ".json").write_text(json.dumps({"rows": [0, 1], "skipped": ["100.png: \x1b[31m\nred"]}))
    assert read_folder(pictures, "train", 16).skipped == ("100.png: ?[31m?red",)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_pipes_are_not_waited_for(pictures: Path, cache: Path, suffix: str) -> None:
    file = entry(cache, suffix)
    file.unlink()
    os.mkfifo(file)
    assert still_right(pictures)
