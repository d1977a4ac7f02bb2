"""Which pictures a head was fitted on, by content: on those it would look better than it is."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.head import LinearHead

FACT = "fitted_on"  # of a head: the beginnings of the hashes of the pictures
DIGITS = 12  # hexadecimal; that any of a million pictures matches any of a million others by chance: .4 %


def remember(head: LinearHead, embedding: Embedding, rows: NDArray[np.int64]) -> LinearHead:
    """The head with a note of the pictures in these rows."""
    contents = sorted({embedding.sha256[row][:DIGITS] for row in rows.tolist()})
    return replace(head, facts={**head.facts, FACT: " ".join(contents)})


def taught_rows(head: LinearHead, embedding: Embedding) -> NDArray[np.bool_]:
    """(N,) whether the head was fitted on a picture of the same content."""
    contents = head.facts.get(FACT)
    known = set(contents.split()) if isinstance(contents, str) else set()
    return np.fromiter((sha[:DIGITS] in known for sha in embedding.sha256), np.bool_, len(embedding))
