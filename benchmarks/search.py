"""Is an exact search as fast as one product of a matrix and a vector, and an index right and much faster?

    python benchmarks/search.py EMB

Exact: the ten nearest of one query in 100,000 random vectors of 512 numbers, float32 (goal: at most 1.2 times the
faster of torch's and numpy's bare product), and float16. All alternate in one run; medians.

Index: a million vectors, half of them random, half those of EMB (for example of CIFAR-10) with noise; queries that are
like EMB's but not among them. Goals: recall@10 of .99, 20 times as fast as exact. Random queries are reported too: in
many dimensions all random vectors are about equally far from each other, and no graph finds the nearest of them soon.
Building takes about five minutes of one thread; --count has fewer.
"""

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from record import FOLDER, record

from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.index import CANDIDATES, SETTINGS, TRIED, approximate_bank
from hardpair.embeddings.neighbours import Bank

K, NOISE = 10, 0.3  # noise in standard deviations of each number
EXACT = (100_000, 512)


def bare_embedding(folder: Path, vectors: np.ndarray) -> Embedding:
    """Vectors without images, mapped from a file as those of a real one are."""
    np.save(folder / "vectors.npy", vectors)
    mapped = np.load(folder / "vectors.npy", mmap_mode="c")
    manifest = {"vectors_sha256": hashlib.sha256(str(vectors.shape).encode()).hexdigest()}
    none = np.empty(0, np.int64)
    return Embedding(folder, mapped, (), (), none, (), (), none, manifest)


def medians(ways: dict[str, Callable[[np.ndarray], object]], queries: np.ndarray, rounds: int) -> dict[str, float]:
    """Median seconds of each, by turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        first = turn % len(ways)  # a way that always followed the same one would share its luck
        for name in [*ways][first:] + [*ways][:first]:
            began = time.perf_counter()
            ways[name](queries[turn % len(queries)])
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(own) for name, own in times.items()}


def exact(folder: Path, rounds: int) -> dict[str, float]:
    """Seconds of one query, and the ratio to the bare product."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal(EXACT, dtype=np.float32)
    queries = random.standard_normal((rounds, EXACT[1]), dtype=np.float32)
    (folder / "float16").mkdir()
    bank, half = Bank(bare_embedding(folder, vectors)), Bank(bare_embedding(folder / "float16", vectors.astype("f2")))
    mapped = bank.vectors.numpy()
    ways = {
        "bare_torch": lambda query: torch.mv(bank.vectors, torch.from_numpy(query)),
        "bare_numpy": lambda query: mapped @ query,
        "search": lambda query: bank.nearest(query[None], K),
        "search_float16": lambda query: half.nearest(query[None], K),
    }
    found = medians(ways, queries, rounds)
    print(f"{EXACT[0]:,} x {EXACT[1]}: " + ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in found.items()))
    found["ratio"] = found["search"] / min(found["bare_torch"], found["bare_numpy"])
    print(f"search is {found['ratio']:.2f} times the bare product")
    return found


def mixture(real: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Vectors like the real ones: some of them with noise."""
    rows = real[random.integers(0, len(real), count)]
    noise = random.standard_normal(rows.shape, dtype=np.float32) * real.std(0) * np.float32(NOISE)
    return rows + noise


def index(real: np.ndarray, folder: Path, count: int, asked: int) -> dict[str, float]:
    """Recall and speed."""
    random = np.random.default_rng(0)
    scale = float(np.linalg.norm(real, axis=1).mean()) / real.shape[1] ** 0.5
    noise = random.standard_normal((count // 2, real.shape[1]), dtype=np.float32) * np.float32(scale)
    made = bare_embedding(folder, np.concatenate([mixture(real, count - count // 2, random), noise]))
    queries = {
        "real": mixture(real, asked, random),
        "random": random.standard_normal((asked, real.shape[1]), dtype=np.float32),
    }
    began = time.perf_counter()
    approximate = approximate_bank(made)
    found = {"count": count, "dimensions": real.shape[1], "build_seconds": time.perf_counter() - began}
    began = time.perf_counter()
    approximate = approximate_bank(made)
    found["open_seconds"] = time.perf_counter() - began
    bank = Bank(made)
    for kind, own in queries.items():
        truth, given = bank.nearest(own, K)[1].tolist(), [approximate.nearest(query[None], K)[1][0] for query in own]
        shared = [len({*true} & {*some.tolist()}) / K for true, some in zip(truth, given, strict=True)]
        ways = {"exact": lambda q: bank.nearest(q[None], K), "index": lambda q: approximate.nearest(q[None], K)}
        seconds = medians(ways, own, 100)
        found |= {f"{kind}_recall": float(np.mean(shared)), f"{kind}_times": seconds["exact"] / seconds["index"]}
        found |= {f"{kind}_{name}_seconds": value for name, value in seconds.items()}
    print("\n".join(f"{name}: {value:.4g}" for name, value in found.items()))
    return found


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embedding", type=Path)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--exact", action="store_true", help="measure only the exact search again")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    real = np.array(open_embedding(options.embedding).vectors, dtype=np.float32)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        found = {"exact_100000_512": exact(Path(first), options.rounds)}
        if options.exact:
            found["index"] = json.loads((FOLDER / "search.json").read_text())["index"]
        else:
            found["index"] = index(real, Path(second), options.count, options.queries)
    record("search", {**found, "settings": {**SETTINGS, "tried": TRIED, "candidates": CANDIDATES}})


if __name__ == "__main__":
    main()
