"""The page of a map: a drawing script and the numbers that it draws, in one file that asks nothing of anybody."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.graph import Graph
from hardpair.embeddings.hard_pairs import HardPairs
from hardpair.embeddings.projection import Projection
from hardpair.embeddings.thumbnails import Thumbnails
from hardpair.report.markup import Html, document, element
from hardpair.text import several

SCRIPTS = ("data", "colours", "view", "dots", "thumbnails", "over", "panel", "select", "input", "main")
SHOWN_NEIGHBOURS = 8  # of each image
BANDS = ((0.5, "usual half"), (0.8, "top 50 %"), (0.95, "top 20 %"), (0.99, "top 5 %"), (1.0, "top 1 %"))
MOST_SHARED = 60  # letters that a name may share with the one before; written as one letter

_KINDS = {"f4": "Float32Array", "u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array"}


@dataclass(frozen=True)
class Map:
    """What a page shows."""

    embedding: Embedding
    graph: Graph
    projection: Projection
    pairs: HardPairs
    typical: Sequence[Sequence[int]]  # rows that stand for each cluster
    thumbnails: Thumbnails


def map_page(shown: Map) -> bytes:
    """The HTML file. What the first look needs comes before the script, all else behind it."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    policy += "; base-uri 'none'; form-action 'none'"
    body = Html(_resource("body.html"))
    drawing = element("script", Html(script))
    first = [_json("meta", _meta(shown)), *_first_columns(shown)]
    page = document(
        f"Map of {_title(shown.embedding)}",
        ["page.css", "map.css"],
        body,
        *first,
        drawing,
        *_later(shown),
        policy=policy,
    )
    return page.encode()


def _resource(name: str) -> str:
    return resources.files("hardpair.report").joinpath("map", name).read_text(encoding="utf-8")


def _script() -> str:
    """The modules as one, in a scope of its own."""
    modules = "\n".join(_resource(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{modules}}})();\n'


def _json(name: str, value: Any) -> Html:
    """Data in a page: without <, nothing in it can end the element or begin another."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", id=name)


def _column(name: str, values: NDArray[Any], *, most: float = 0.0) -> Html:
    """Numbers as base64, little-endian; with ``most``, those from 0 to it in two bytes each."""
    more = {}
    if most:
        values = np.rint(values.clip(0, most) * (65_535 / most)).astype("<u2")
        more = {"data_scale": repr(most / 65_535)}
    kind = values.dtype.newbyteorder("<")
    text = base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()
    return element("script", Html(text), type="text/plain", id=name, data_kind=_KINDS[kind.str[1:]], **more)


def _codes(name: str, values: NDArray[np.integer[Any]], kinds: int) -> Html:
    """Places in a list of so many; -1 becomes the largest number of its type."""
    return _column(name, values.astype("u1" if kinds < 255 else "u2" if kinds < 65_535 else "u4"))


def _rows(name: str, values: NDArray[np.integer[Any]], count: int) -> Html:
    return _column(name, values.astype("u2" if count <= 65_536 else "u4"))


def _first_columns(shown: Map) -> Iterator[Html]:
    embedding, clusters = shown.embedding, shown.projection.clusters
    yield _column("points", shown.projection.points.astype("f4"))
    yield _codes("labels", embedding.labels, len(embedding.classes))
    yield _codes("clusters", clusters, len(shown.typical))
    names = {name: place for place, name in enumerate(splits_of(embedding))}
    yield _codes("splits", np.array([names.get(split, -1) for split in embedding.splits]), len(names))
    yield _column("bands", bands(shown.graph.outlier_scores()))


def _later(shown: Map) -> Iterator[Html]:
    embedding, graph, pairs, thumbnails = shown.embedding, shown.graph, shown.pairs, shown.thumbnails
    count = len(embedding)
    yield _json("names", front_coded(embedding.files))
    yield _rows("near-rows", graph.rows[:, :SHOWN_NEIGHBOURS], count)
    yield _column("near-values", graph.similarity[:, :SHOWN_NEIGHBOURS], most=1.0)
    own = np.arange(count)[:, None]  # stands for none
    yield _rows("pair-rows", np.where(pairs.mined, pairs.rows, own), count)
    yield _column("pair-values", pairs.distance, most=pairs.threshold)
    yield _column("scores", graph.outlier_scores(), most=2.0)
    yield _column("sizes", embedding.sides.clip(0, 2**32 - 1).astype("u4"))
    yield _column("thumb-rows", thumbnails.rows.astype("u4"))
    for place, atlas in enumerate(thumbnails.atlases):
        yield _column(f"atlas-{place}", np.frombuffer(atlas, np.uint8))


def front_coded(names: Sequence[str]) -> list[str]:
    """Each name as a letter that says how many it shares with the one before, and the rest."""
    return [_behind(before, name) for before, name in pairwise(["", *names])]


def _behind(before: str, name: str) -> str:
    # JavaScript counts letters beyond the first 65,536 as two: none of those is shared, and none is cut.
    limit = min(len(before), len(name), MOST_SHARED)
    shared = next((at for at in range(limit) if before[at] != name[at] or name[at] > "\ud7ff"), limit)
    return chr(48 + shared) + name[shared:]


def bands(scores: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Which of `BANDS` each image is in, by the rank of its outlier score."""
    rank = np.empty(len(scores))
    rank[np.argsort(scores, kind="stable")] = (np.arange(len(scores)) + 0.5) / len(scores)
    return np.searchsorted([upper for upper, _ in BANDS], rank).astype(np.uint8)


def splits_of(embedding: Embedding) -> list[str]:
    """Their names, the largest first; none where the images have none."""
    return [name for name, _ in Counter(embedding.splits).most_common() if name]


def _title(embedding: Embedding) -> str:
    """The last part of where the images came from: pages are passed on, and folders are private."""
    source: str = embedding.manifest["images"]["source"]
    return source.rstrip("/").rpartition("/")[2] or "images"


def _meta(shown: Map) -> dict[str, Any]:
    embedding, thumbnails, pairs = shown.embedding, shown.thumbnails, shown.pairs
    count = len(embedding)
    settings, held = embedding.manifest["encoder"].get("settings"), len(thumbnails.rows)
    encoder_name = [str(settings["name"])] if isinstance(settings, dict) and "name" in settings else []
    groups = [several(len(shown.typical), "cluster")] if shown.typical else []
    classes = [several(len(embedding.classes), "label")] if embedding.classes else []
    sample = [several(held, "thumbnail")] if held < count else []
    return {
        "title": _title(embedding),
        "about": " · ".join([several(count, "picture"), *sample, *classes, *groups, *encoder_name]),
        "limits": limits(count, thumbnails),
        "rule": rule(pairs, labelled=bool(embedding.classes)),
        "count": count,
        "classes": embedding.classes,
        "clusters": cluster_facts(shown),
        "splits": splits_of(embedding),
        "bands": [name for _, name in BANDS],
        "near": min(SHOWN_NEIGHBOURS, shown.graph.rows.shape[1]),
        "pairs": {"each": pairs.rows.shape[1], "threshold": pairs.threshold},
        "thumbs": {"side": thumbnails.side, "across": thumbnails.across, "count": len(thumbnails.rows)},
    }


def limits(count: int, thumbnails: Thumbnails) -> str:
    """Which pictures are in the page, in words."""
    shown, missing = len(thumbnails.rows), thumbnails.missing
    gone = f" {several(missing, 'picture')} could not be read." if missing else ""
    if shown + missing == count:
        return f"This page holds a small picture of {'each' if not missing else f'{shown:,} of {count:,}'}.{gone}"
    return f"This page holds small pictures of {shown:,} of {count:,}, spread over the map as all are.{gone}"


def rule(pairs: HardPairs, *, labelled: bool) -> str:
    """What the hard pairs of the page are, in words."""
    words = (
        "Two different pictures that the encoder finds alike are a hard negative, by the rule of hard negative pair "
        "mining: each vector is divided by its largest entry, and pairs whose squared distance is at most "
        f"{pairs.threshold:.2f} are mined. Training would push them apart. Training looks at the outputs of its heads; "
        "this page looks at the vectors themselves, with a threshold at which half of the pictures have four or more, "
        "and shows the nearest of each."
    )
    labels = " Where both have the same class, the pair is a false negative: pushing it apart would do harm."
    return words + labels if labelled else words


def cluster_facts(shown: Map) -> list[dict[str, Any]]:
    """Name and typical pictures of each; the name is the label of most of its pictures, where that is one."""
    return [{"name": _name_of(shown, place), "typical": list(typical)} for place, typical in enumerate(shown.typical)]


def _name_of(shown: Map, cluster: int) -> str:
    labels = shown.embedding.labels[shown.projection.clusters == cluster]
    tally = np.bincount(labels[labels >= 0], minlength=1)
    share = tally.max() / len(labels)
    return f"{share:.0%} {shown.embedding.classes[int(tally.argmax())]}" if share >= 0.3 else ""
