"""Does `hardpair embed` keep up with its encoder, and what do kills, many images and float16 cost?

    python benchmarks/embed.py speed kills memory float16 --encoder runs/demo --images data/imagenette-96

Each word is one question; without any, all of them. What they find is kept beside what was found before.

speed: embedding a set whose pixels are there already, by turns with the bare forward (`plain_view`, then the encoder)
of the same pixels in batches of 256. Ratios of seconds, and of the processor's seconds of the thread that computes
(what else runs on the machine counts in the first only). Goal: the bare forward is at least .95 of it. And of JPEGs:
the share of the time in which the encoder waits for pictures.
kills: 20 × SIGKILL of real commands at random moments after their work began; the bytes at the end against those of an
undisturbed command. Goal: the same. (tests/embeddings/test_embed_faults.py counts that a kill costs at most one part.)
memory: peak of the command with 10,000 and with 200,000 JPEGs in one folder. Goal: equal within 5 %.
float16: of the ten nearest by float32, the share that is also among the ten nearest by float16: of images of the
embedding itself, and of queries in float32, as a new picture is. Goal: at least .999.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from record import found_before, record

import hardpair as hp
from hardpair.data.pack import pack
from hardpair.embeddings import parts
from hardpair.embeddings.embed import embed_source
from hardpair.embeddings.embedder import Embedder
from hardpair.embeddings.source import open_source, read_ahead
from hardpair.machine import keep_freed_memory
from hardpair.models import build_encoder
from hardpair.views import plain_view

CPU, SECONDS, BATCH = torch.device("cpu"), 45.0, 256
ENCODERS = (("resnet10", 0.25, 32), ("resnet18", 0.25, 32), ("resnet18", 1.0, 96))
KILLS, FEW, MANY = 20, 10_000, 200_000
COMMAND = (sys.executable, "-m", "hardpair", "embed")


def speed(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Against the bare forward, for three encoders."""
    found: dict[str, object] = {}
    pack(options.images / "val", folder / "packed", 96)
    for name, width, side in ENCODERS:
        encoder = build_encoder(name, width=width, small_images=side == 32).eval().to(memory_format=torch.channels_last)
        embedder = Embedder(encoder, "new", side, side, CPU)
        data = "sample" if side == 32 else str(folder / "packed")
        source = open_source(data, size=side, least=side, data_root=Path())
        pixels = source.part(0, len(source)).pixels

        @torch.no_grad()
        def bare(encoder: torch.nn.Module = encoder, pixels: torch.Tensor = pixels) -> None:
            for batch in pixels.split(BATCH):
                encoder(plain_view(batch))

        def embed(embedder: Embedder = embedder, source: object = source) -> None:
            embed_source(embedder, source, folder / "emb")
            shutil.rmtree(folder / "emb")

        found[f"{name} of width {width:g} at {side} px"] = by_turns(bare, embed, len(source))
    found["waiting for JPEGs"] = waiting(options, embedder)
    return found


def by_turns(bare: Callable[[], None], embed: Callable[[], None], images: int) -> dict[str, float]:
    """Bare ÷ embed of neighbours: the median, and that of the best of each."""
    bare()
    walls: dict[str, list[float]] = {"bare": [], "embed": []}
    threads: dict[str, list[float]] = {"bare": [], "embed": []}
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(walls["bare"]) < 3:
        for name, work in (("bare", bare), ("embed", embed)):
            began, computed = time.perf_counter(), time.thread_time()
            work()
            walls[name].append(time.perf_counter() - began)
            threads[name].append(time.thread_time() - computed)
    found = {"images": images, "turns": len(walls["bare"])}
    for what, times in (("seconds", walls), ("thread seconds", threads)):
        found[f"ratio of best {what}"] = min(times["bare"]) / min(times["embed"])
        found[f"median ratio of {what}"] = statistics.median(
            one / other for one, other in zip(times["bare"], times["embed"], strict=True)
        )
    print(found, flush=True)
    return found


def waiting(options: argparse.Namespace, embedder: Embedder) -> dict[str, float]:
    """Share of the time in which the encoder waits for decoded pictures, after the first."""
    source = open_source(str(options.images / "val"), size=96, least=96, data_root=Path())
    spans = [(start, min(start + BATCH, len(source))) for start in range(0, len(source), BATCH)]
    batches = read_ahead(source, spans)
    part, waited, began = next(batches), 0.0, time.perf_counter()
    while part is not None:
        embedder.vectors(part.pixels)
        asked = time.perf_counter()
        part = next(batches, None)
        waited += time.perf_counter() - asked
    return {"images": len(source), "share": waited / (time.perf_counter() - began)}


def kills(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Real commands; each life gets a random time from when its work begins."""
    words = [*COMMAND, str(options.encoder), str(options.images), "--threads", "1", "--out"]
    subprocess.run([*words, str(folder / "straight")], check=True, capture_output=True)
    out, chance, killed, whole = folder / "killed", random.Random(0), 0, []
    while killed < KILLS:
        (out / parts.FOLDER / parts.LOCK).unlink(missing_ok=True)  # of the life before; a new one says that work begins
        life = subprocess.Popen([*words, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while life.poll() is None and not (out / parts.FOLDER / parts.LOCK).exists():
            time.sleep(0.01)
        time.sleep(chance.uniform(0, options.life))
        life.send_signal(signal.SIGKILL)
        if life.wait() != -signal.SIGKILL:  # it came to its end: begin anew
            assert compare(out, folder / "straight")
            shutil.rmtree(out)
            continue
        killed += 1
        whole.append(len(list((out / parts.FOLDER).glob("*.part"))))
    subprocess.run([*words, str(out)], check=True, capture_output=True)
    same = compare(out, folder / "straight")
    found = {"kills": killed, "same sha256": same, "parts on the disk after each": whole, "part": parts.PART}
    print(found, flush=True)
    return found


def compare(one: Path, other: Path) -> bool:
    """Whether two embeddings have the same bytes."""
    hashes = [
        [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("vectors.npy", "images.jsonl")]
        for folder in (one, other)
    ]
    return hashes[0] == hashes[1]


def memory(_: argparse.Namespace, folder: Path) -> dict[str, object]:
    """A thousand different JPEGs under many names."""
    random_ = np.random.default_rng(0)
    (folder / "different").mkdir()
    for row in range(1000):
        coarse = Image.fromarray(random_.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        coarse.resize((64, 48), Image.Resampling.BICUBIC).save(folder / f"different/{row}.jpg")
    encoder = folder / "encoder"
    save_tiny(encoder)
    found: dict[str, object] = {}
    peaks = []
    for images in (FEW, MANY):
        (folder / str(images)).mkdir()
        for row in range(images):
            os.link(folder / f"different/{row % 1000}.jpg", folder / str(images) / f"holiday_{row:08d}.jpg")
        peak, seconds = peak_of(
            [*COMMAND, str(encoder), str(folder / str(images)), "--out", str(folder / f"e{images}")]
        )
        peaks.append(peak)
        found[f"{images:,} images"] = {"peak MB": peak / 1e6, "seconds": seconds}
        print(images, found[f"{images:,} images"], flush=True)
    found["ratio"] = peaks[1] / peaks[0]
    return found


def save_tiny(folder: Path) -> None:
    """An encoder that costs hardly anything, with what is needed of its run."""
    from hardpair.models import save_encoder

    folder.mkdir()
    torch.manual_seed(0)
    save_encoder(build_encoder("resnet10", width=0.25, small_images=True), folder, step=1)
    (folder / "recipe.json").write_text(json.dumps({"image_size": 32, "view_size": 1.0}))


def peak_of(words: list[str]) -> tuple[int, float]:
    """Bytes of memory of a process at most, and how long it took."""
    began = time.perf_counter()
    process = subprocess.Popen([*words, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    assert isinstance(used, resource.struct_rusage)
    return 1024 * used.ru_maxrss, time.perf_counter() - began


def float16(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Of embeddings that are there, or else of the images."""
    made = [hp.open_embedding(given) for given in options.embeddings]
    if not made:
        made = [hp.embed(options.encoder, options.images, out=folder / "emb")]
    found: dict[str, object] = {}
    for embedding in made:
        whole = np.asarray(embedding.vectors, np.float32)
        half = whole.astype(np.float16).astype(np.float32)
        rows = np.random.default_rng(0).permutation(len(whole))[:5000]
        true = nearest(whole, whole, rows)
        shape = f"{len(whole):,} x {whole.shape[1]}"
        found[f"{embedding.folder.name}: {shape}"] = one = {
            "recall": recall(true, nearest(half, half, rows)),
            "recall of queries in float32": recall(true, nearest(half, whole, rows)),
        }
        print(embedding.folder.name, shape, one, flush=True)
    return found


def nearest(bank: np.ndarray, queries: np.ndarray, rows: np.ndarray, k: int = 10) -> torch.Tensor:
    """Rows of the k most similar by cosine; an image is not its own neighbour."""
    unit = torch.nn.functional.normalize(torch.from_numpy(bank), dim=1)
    found = []
    for part in torch.from_numpy(rows).split(500):
        similarity = torch.nn.functional.normalize(torch.from_numpy(queries)[part], dim=1) @ unit.T
        similarity[torch.arange(len(part)), part] = -2
        found.append(similarity.topk(k, dim=1).indices)
    return torch.cat(found)


def recall(true: torch.Tensor, found: torch.Tensor) -> float:
    """Share of the true ones that were found."""
    return float((true[:, :, None] == found[:, None, :]).any(2).double().mean())


QUESTIONS = {"speed": speed, "kills": kills, "memory": memory, "float16": float16}


def main() -> None:
    """Answer what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar=f"{{{','.join(QUESTIONS)}}}")
    parser.add_argument("--encoder", type=Path, default=Path("runs/demo"))
    parser.add_argument("--images", type=Path, default=Path("data/imagenette-96"))
    parser.add_argument("--embeddings", type=Path, nargs="*", default=[], help="for float16")
    parser.add_argument("--life", type=float, default=4.0, help="seconds after which a life is killed at the latest")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.questions) - QUESTIONS.keys():
        parser.error(f"no such question: {', '.join(unknown)}")
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as the command does
    answers = found_before("embed", QUESTIONS)
    for name in options.questions or QUESTIONS:
        with tempfile.TemporaryDirectory() as folder:
            answers[name] = QUESTIONS[name](options, Path(folder))
    record("embed", answers)


if __name__ == "__main__":
    main()
