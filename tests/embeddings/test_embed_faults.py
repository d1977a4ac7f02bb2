"""Kills and several processes leave every bit of an embedding as it is: real processes, real SIGKILLs."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from make_embedding import write_pictures
from make_encoder import make_encoder
from together import SERVER, together

import hardpair as hp
from hardpair.embeddings import embed as module
from hardpair.embeddings import parts
from hardpair.embeddings.embedder import Embedder

PART, STEP, IMAGES = 16, 4, 799  # so that a life of a fifth of a second computes some of 50 parts
BATCHES = 200  # with the broken one


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """An encoder, pictures, one of them broken, and what they become undisturbed."""
    folder = tmp_path_factory.mktemp("given")
    make_encoder(folder / "encoder")
    write_pictures(folder / "photos", [f"{row % 3}/{row:03d}.png" for row in range(IMAGES)])
    (folder / "photos/1/broken.png").write_bytes(b"no picture")
    live(folder, folder / "undisturbed")
    return folder


def live(folder, out, slow=0.0):
    """Embed in small parts; each batch is slower by so many seconds, and leaves a mark."""
    parts.PART, module.BATCH = PART, STEP
    vectors = Embedder.vectors

    def slowly(self, pixels):
        time.sleep(slow)
        with (folder / f"{out.name}.batches").open("a") as marks:
            marks.write(".")
        return vectors(self, pixels)

    Embedder.vectors = slowly
    try:
        hp.embed(folder / "encoder", folder / "photos", out=out, threads=1)
    finally:
        Embedder.vectors = vectors


def content(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in ("vectors.npy", "images.jsonl", "broken.txt")]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_at_random_moments_ends_as_if_nothing_had_been(given, kills):
    out, chance, rounds = given / f"killed{kills}", random.Random(0), 1
    marks = given / f"{out.name}.batches"
    for _ in range(kills):
        life = SERVER.Process(target=live, args=(given, out, 0.02))
        life.start()
        before = size(marks)
        while life.is_alive() and size(marks) == before:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.2))
        life.kill()
        life.join()
        if (out / "manifest.json").exists():  # it came to its end: begin anew
            assert content(out) == content(given / "undisturbed")
            shutil.rmtree(out)
            rounds += 1
    live(given, out)
    assert content(out) == content(given / "undisturbed")
    assert not (out / "parts").exists()
    assert size(marks) <= rounds * BATCHES + kills * PART // STEP, "at most one part is lost by a kill"
    assert rounds <= kills // 10, "kills that come at the end cost nothing"


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["part", "images.jsonl", "vectors.npy", "manifest.json", "removal"])
def test_killed_while_it_writes(given, moment):
    out = given / f"written{moment}"
    life = SERVER.Process(target=die_at, args=(given, out, moment))
    life.start()
    life.join()
    assert life.exitcode == -signal.SIGKILL
    live(given, out)
    assert content(out) == content(given / "undisturbed")
    assert not (out / "parts").exists()


def die_at(folder, out, moment):
    """Right before a file gets its name, in the middle of a part, or when half of the parts are removed."""

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    replace = Path.replace

    def dying_replace(self, target):
        if Path(target).name == moment or (moment == "part" and Path(target).name == f"{5 * PART:012d}.part"):
            die()
        return replace(self, target)

    def dying_removal(folder, **_):
        next(iter(Path(folder).iterdir())).unlink()
        die()

    Path.replace = dying_replace
    if moment == "removal":
        parts.shutil.rmtree = dying_removal
    live(folder, out)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_several_ranks_write_the_same_bytes(given, ranks):
    together(ranks, live, given, given / f"ranks{ranks}")
    assert content(given / f"ranks{ranks}") == content(given / "undisturbed")


@pytest.mark.slow
def test_torchrun_starts_them(given):
    """The command itself, with parts of the usual size."""
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "hardpair",
    ]
    for name, start in {"one": [sys.executable, "-m", "hardpair"], "two": torchrun}.items():
        words = ["embed", str(given / "encoder"), str(given / "photos"), "--out", str(given / name), "--threads", "1"]
        subprocess.run([*start, *words], check=True, timeout=300, capture_output=True)
    assert content(given / "two") == content(given / "one")


@pytest.mark.slow
def test_ranks_wait_for_each_other_longer_than_torch_would(given):
    together(2, wait_long, given, given / "waited")
    assert content(given / "waited") == content(given / "undisturbed")


def wait_long(folder, out):
    """The second rank needs ten seconds for its share, where the group gives up after five."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=5))
    live(folder, out, slow=10 / (IMAGES / STEP / 2) if torch.distributed.get_rank() else 0)
    torch.distributed.destroy_process_group()
