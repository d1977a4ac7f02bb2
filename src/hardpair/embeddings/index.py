"""An approximate index for millions of images, by usearch: a graph of neighbours that is walked instead of all vectors.

It keeps vectors of eight-bit integers and only proposes; similarities are computed from the vectors of the embedding.
It lies in the folder of the embedding and is built again when it belongs to other vectors.
"""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.data.progress import progress
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.neighbours import Bank
from hardpair.errors import UserError
from hardpair.files import read_json, replacing, write_atomically

FILE, FACTS = "index.usearch", "index.json"
AT_ONCE = 8192  # vectors that are added between two signs of progress
QUERIES = 256  # at a time: 40 candidates of each, of 512 numbers, take 21 MB
# On 50,000 vectors of real photos with noise, a graph built with half as many tries was faster to build by a third and
# missed three times as many neighbours; float16 instead of integers took twice the time and missed as many.
SETTINGS: dict[str, Any] = {"connectivity": 16, "expansion_add": 128, "dtype": "i8"}
TRIED = 128  # vectors that a search looks at beside its path: half the time of 256, and .002 less recall
CANDIDATES = 4  # times k are proposed: integers confuse neighbours that are nearly as near


class ApproximateBank:
    """What `neighbours.Bank` does, but only the most promising vectors are looked at."""

    def __init__(self, embedding: Embedding, index: Any) -> None:
        self.embedding, self.index = embedding, index
        self.vectors = torch.from_numpy(embedding.vectors)  # (N, D) mapped
        self.index.expansion_search = TRIED

    @functools.cached_property
    def exact(self) -> Bank:
        """For the rare query of which the index proposes too few."""
        return Bank(self.embedding)

    def nearest(self, queries: NDArray[np.float32], k: int) -> tuple[Tensor, Tensor]:
        """Similarities and rows (M, k) of each query (M, D), nearly always the nearest, the nearest first."""
        k = min(k, len(self.vectors))
        found = [self._nearest(queries[start : start + QUERIES], k) for start in range(0, len(queries), QUERIES)]
        return torch.cat([similarity for similarity, _ in found]), torch.cat([rows for _, rows in found])

    def _nearest(self, queries: NDArray[np.float32], k: int) -> tuple[Tensor, Tensor]:
        unit = torch.nn.functional.normalize(torch.from_numpy(queries).float(), dim=1)
        wanted = min(CANDIDATES * k, len(self.vectors))
        rows = self._proposed(unit, wanted)
        if rows is None:
            return self.exact.nearest(queries, k)
        vectors = torch.nn.functional.normalize(self.vectors[rows].float(), dim=2)  # (m, wanted, D)
        similarity, order = torch.bmm(vectors, unit[:, :, None])[:, :, 0].topk(k, dim=1)
        return similarity, rows.gather(1, order)

    def _proposed(self, unit: Tensor, count: int) -> Tensor | None:
        """Rows (m, count), or None where it finds fewer for one of the queries."""
        from usearch.index import Matches

        matches = self.index.search(unit.numpy(), count, threads=torch.get_num_threads())
        found = len(matches) if isinstance(matches, Matches) else int(matches.counts.min())  # of one, or of several
        if found < count:
            return None
        return torch.from_numpy(np.asarray(matches.keys).astype(np.int64)).reshape(len(unit), count)


def require_usearch() -> None:
    """Before any work: refuse where the library is not there."""
    try:
        import usearch.index  # noqa: F401
    except ImportError as error:
        raise UserError("index: needs usearch; pip install 'hardpair[index]'") from error


def approximate_bank(embedding: Embedding) -> ApproximateBank:
    """Open the index of an embedding; built now if it is not there, is damaged, or belongs to other vectors."""
    require_usearch()
    index = _open(embedding)
    return ApproximateBank(embedding, _build(embedding) if index is None else index)


def _facts(embedding: Embedding) -> dict[str, Any]:
    """What an index must have been built from."""
    import usearch

    return {"vectors": embedding.manifest["vectors_sha256"], "usearch": usearch.__version__, **SETTINGS}


def _open(embedding: Embedding) -> Any:
    """None where it is not the one of these vectors. A file is only handed to usearch if its hash is the one noted."""
    from usearch.index import Index

    file = embedding.folder / FILE
    try:
        known = read_json(embedding.folder / FACTS)
        sha256 = _sha256_of(file)
    except (OSError, ValueError):
        return None
    if known != {**_facts(embedding), "sha256": sha256}:
        return None
    index = Index.restore(file, view=True)
    return index if index is not None and len(index) == len(embedding) else None


def _build(embedding: Embedding) -> Any:
    """With all threads; the file of facts, which names the hash of the other, is written last."""
    from usearch.index import Index

    index = Index(ndim=embedding.vectors.shape[1], metric="cos", **SETTINGS)
    count = len(embedding)
    with progress("building the index", count) as advance:
        for start in range(0, count, AT_ONCE):
            unit = embedding.unit_vectors(slice(start, start + AT_ONCE))
            index.add(np.arange(start, start + len(unit)), unit, threads=torch.get_num_threads())
            advance(len(unit))
    file = embedding.folder / FILE
    try:
        with replacing(file) as temporary:
            index.save(temporary)
            sha256 = _sha256_of(temporary)
    except RuntimeError as error:  # usearch's own
        raise UserError(f"{file}: cannot be written ({error})") from error
    write_atomically(embedding.folder / FACTS, json.dumps({**_facts(embedding), "sha256": sha256}).encode())
    return index


def _sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
