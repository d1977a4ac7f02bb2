"""Maps: are they as faithful as umap-learn's, how large is a page, and how fast does a browser draw it?

    python benchmarks/map.py --encoder runs/demo --photos data/imagenette-96 --photos data/pets --embedding emb

Goals: trustworthiness@15 at least that of umap-learn with its own settings − .01; a page with 20,000 thumbnails of
photos of at most 30 MB; 100,000 points painted within 2 s of opening the file and at least 30 frames a second while
panning, in headless Chromium without a GPU, offline. Needs 20,000 photos, Chromium and playwright.
"""

import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import record

import hardpair as hp
from hardpair.embeddings import projection
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.graph import neighbour_graph
from hardpair.embeddings.hard_pairs import hard_pairs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "embeddings"))
from make_embedding import make_embedding

SEEDS = (0, 1, 2)
QUERIES = 2000  # images that trustworthiness is taken of
POINTS, THUMBNAILS, PART = 100_000, 20_000, 20_000
LOADS = 5
CHROMIUM = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking", "--disable-quic"]
FRAMES = """() => { window.frames_ = []; window.shown_ = [];
  const next = now => { frames_.push(now); shown_.push(hardpairMap.thumbs().length); requestAnimationFrame(next); };
  requestAnimationFrame(next); }"""


def trustworthiness(embedding: Embedding, points: np.ndarray, k: int = 15) -> float:
    """As scikit-learn defines it, of a sample of images against all."""
    unit, count = torch.from_numpy(embedding.unit_vectors()), len(points)
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(count, min(QUERIES, count), replace=False))
    places, penalty = torch.from_numpy(points).double(), 0.0
    for row in rows.tolist():
        similarity = unit @ unit[row]
        similarity[row] = torch.inf
        rank = torch.empty(count, dtype=torch.int64)
        rank[similarity.argsort(descending=True)] = torch.arange(count)  # 0 is the image itself
        apart = (places - places[row]).square().sum(1)
        apart[row] = torch.inf
        penalty += float((rank[apart.topk(k, largest=False).indices] - k).clamp(min=0).sum())
    return 1 - 2 / (len(rows) * k * (2 * count - 3 * k - 1)) * penalty


def part_of(embedding: Embedding, folder: Path, count: int) -> Embedding:
    """Every so-manieth image of an embedding."""
    rows = np.linspace(0, len(embedding) - 1, min(count, len(embedding))).astype(int)
    return make_embedding(folder, np.asarray(embedding.vectors[rows], np.float32))


def faithful(embedding: Embedding, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Ours from the neighbours that are known, umap-learn's own by turns, seed after seed."""
    from umap import UMAP

    graph = neighbour_graph(embedding)
    found: dict[str, list[float]] = {"ours": [], "umap_learn": [], "ours_seconds": [], "umap_learn_seconds": []}
    projection.lay_out(embedding, graph)  # compiles
    for seed in seeds:
        projection.SEED = seed
        began = time.perf_counter()
        ours = projection.lay_out(embedding, graph)
        found["ours_seconds"].append(time.perf_counter() - began)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a seed means one thread
            theirs = UMAP(metric="cosine", random_state=seed).fit_transform(embedding.unit_vectors())
        found["umap_learn_seconds"].append(time.perf_counter() - began)
        found["ours"].append(trustworthiness(embedding, ours))
        found["umap_learn"].append(trustworthiness(embedding, theirs))
    projection.SEED = SEEDS[0]
    begin = trustworthiness(embedding, projection.principal_components(embedding))
    return {"images": len(embedding), **found, "principal_components": begin}


def exact_hard_pairs(embedding: Embedding) -> float:
    """Share of the nearest by the paper's distance, over all pairs, that are among the candidates of a map."""
    found = hard_pairs(embedding, neighbour_graph(embedding))
    vectors = torch.from_numpy(np.array(embedding.vectors, np.float32))
    scaled = vectors / vectors.abs().amax(1, keepdim=True)
    right = 0
    rows = range(0, len(embedding), max(1, len(embedding) // 1000))
    for row in rows:
        apart = (scaled - scaled[row]).square().sum(1)
        apart[row] = torch.inf
        right += len(set(apart.topk(8, largest=False).indices.tolist()) & set(found.rows[row].tolist()))
    return right / (8 * len(rows))


def of_photos(folder: Path, vectors: np.ndarray, files: list[str], **facts: Any) -> Embedding:
    """Vectors that no encoder made, and files that are photos; thumbnails are as large as those of large photos."""
    embedding = make_embedding(folder, vectors, files=files, root=Path("/"), **facts)
    embedding.sides[:] = 96
    return embedding


def large(folder: Path, photos: list[Path]) -> tuple[Embedding, dict[str, Any]]:
    """100,000 images in 200 groups, whose files are the photos by turns; seconds of the whole verb, and of it again."""
    random = np.random.default_rng(0)
    groups = random.integers(0, 200, POINTS)
    vectors = (random.normal(size=(200, 64))[groups] + 0.5 * random.normal(size=(POINTS, 64))).astype(np.float32)
    files = [str(photo) for photo in itertools.islice(itertools.cycle(photos), POINTS)]
    labels = [f"group {group}" for group in groups]
    embedding = of_photos(folder, vectors, files, labels=labels)
    began = time.perf_counter()
    neighbour_graph(embedding)
    neighbours = time.perf_counter() - began
    began = time.perf_counter()
    page = hp.map(embedding)
    first = time.perf_counter() - began
    began = time.perf_counter()
    hp.map(embedding)
    again = time.perf_counter() - began
    megabytes = page.stat().st_size / 1e6
    return embedding, {"neighbours": neighbours, "map": first, "again": again, "megabytes": megabytes}


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a GPU."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        opened = player.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        yield opened
        opened.close()


def first_paint(chromium: Any, page: Path) -> float:
    """Milliseconds from opening the file until the browser has painted the points."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_offline(True)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_timeout(300)
    drawn, painted = tab.evaluate(
        "[performance.getEntriesByName('painted')[0].startTime, performance.getEntriesByType('paint')[0].startTime]"
    )
    context.close()
    return float(max(drawn, painted))


def panning(chromium: Any, page: Path) -> dict[str, dict[str, float]]:
    """Frames while the map is dragged: all of it, and closer, where thumbnails are."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_timeout(1000)
    tab.evaluate(FRAMES)
    found = {}
    for name, steps in (("whole", 0), ("closer", 8), ("thumbnails", 4)):
        for _ in range(steps):
            tab.mouse.move(*tab.evaluate("hardpairMap.screenOf(0)"))
            tab.mouse.wheel(0, -120)
            tab.wait_for_timeout(50)
        tab.wait_for_timeout(1500)
        first = tab.evaluate("frames_.length")
        tab.mouse.move(700, 450)
        tab.mouse.down()
        began = time.perf_counter()
        for step in itertools.count():
            tab.mouse.move(700 + 200 * np.sin(step / 9), 450 + 150 * np.cos(step / 7))
            if time.perf_counter() - began > 5:
                break
        tab.mouse.up()
        gaps = np.diff(tab.evaluate(f"frames_.slice({first})"))
        thumbs = float(np.mean(tab.evaluate(f"shown_.slice({first})")))
        middle, slowest = (float(np.percentile(gaps, part)) for part in (50, 99))
        found[name] = {
            "frames_a_second": 1000 / float(gaps.mean()),
            "median_ms": middle,
            "ms_of_99_percent": slowest,
            "thumbnails": thumbs,
        }
    context.close()
    return found


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--photos", action="append", required=True)
    parser.add_argument("--embedding", help="of a larger set: 20,000 of its images are laid out, too, with one seed")
    options = parser.parse_args()
    photos = sorted(path.resolve() for folder in options.photos for path in Path(folder).rglob("*.[jJ][pP]*[gG]"))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample = hp.embed(options.encoder, "sample", out=folder / "sample")
        figures["faithful"] = faithful(sample, SEEDS)
        figures["hard_pairs_of_all"] = exact_hard_pairs(sample)
        if options.embedding:
            part = part_of(hp.open_embedding(options.embedding), folder / "part", PART)
            figures["faithful_of_more"] = faithful(part, SEEDS[:1])
        print(figures, flush=True)
        vectors = np.random.default_rng(0).normal(size=(THUMBNAILS, 8))
        page = hp.map(of_photos(folder / "twenty", vectors, [str(photo) for photo in photos[:THUMBNAILS]]))
        figures["page_of_20000_photos"] = {"megabytes": page.stat().st_size / 1e6}
        print(figures["page_of_20000_photos"], flush=True)
        embedding, figures["seconds_of_100000"] = large(folder / "large", photos)
        print(figures["seconds_of_100000"], flush=True)
        with browser() as chromium:
            paints = [first_paint(chromium, embedding.folder / "map.html") for _ in range(LOADS)]
            figures["first_paint_ms"] = {"median": statistics.median(paints), "worst": max(paints)}
            figures["panning"] = panning(chromium, embedding.folder / "map.html")
        print(figures["first_paint_ms"], figures["panning"], flush=True)
    record("map", figures)


if __name__ == "__main__":
    main()
