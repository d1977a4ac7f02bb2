"""What people search for: an image of the embedding, pictures from anywhere, or all images of another embedding."""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from hardpair.data.decode import THREADS, UnusableError, read_square
from hardpair.data.progress import progress
from hardpair.embeddings.embedder import Embedder
from hardpair.embeddings.embedding import MANIFEST, Embedding, open_embedding
from hardpair.embeddings.page_pictures import open_pictures
from hardpair.embeddings.source import open_source
from hardpair.errors import UserError, near, shown
from hardpair.text import several

PART = 1024  # pictures of a folder that are decoded at a time
MOST_COMPARED = 20_000  # names that are compared with a mistyped one, which takes about a second
Pixels = NDArray[np.uint8]  # (3, S, S)


@dataclass(frozen=True)
class Asked:
    """The queries that one word stands for."""

    names: Sequence[str]  # (M,)
    vectors: NDArray[np.float32]  # (M, D) of any length
    own: NDArray[np.int64]  # (M,) row of the embedding that the query is, -1 for any other picture
    pixels: Callable[[Sequence[int], int], Sequence[Pixels | None]] | None = None  # of some, at a size; None for own
    whole: bool = False  # all images of an embedding: the most similar pairs are what is asked for
    broken: tuple[str, ...] = ()  # "file: reason" of pictures that could not be read


class Resolver:
    """Finds out what each word stands for."""

    def __init__(
        self,
        embedding: Embedding,
        words: Sequence[str],
        embedder: Callable[[], Embedder],
        *,
        images: Path | None,
        data_root: Path,
    ) -> None:
        """``embedder`` opens the encoder, which takes seconds and is not always needed."""
        self.embedding, self.embedder, self.data_root = embedding, embedder, data_root
        self.root = embedding.root if images is None else Path(os.path.abspath(images))  # noqa: PTH100 - as below
        below = {word: self._below_root(word) for word in words}
        rows = embedding.rows_of([*words, *below.values()])
        self.known = {word: rows.get(word, rows.get(name, -1)) for word, name in below.items()}

    def _below_root(self, word: str) -> str:
        """Name in the embedding of a file that lies where its pictures are."""
        path = PurePath(os.path.abspath(word))  # noqa: PTH100 - links stay links
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else word

    def resolve(self, word: str) -> Asked:
        """An image of the embedding, a picture file, a folder of pictures, another embedding, or the end of a name."""
        path = Path(word)
        if self.known[word] >= 0:
            return self._of_row(self.known[word])
        if path.is_dir():
            made_by_us = (path / MANIFEST).exists() or (path / "parts").is_dir()
            return self._of_embedding(open_embedding(path)) if made_by_us else self._of_folder(word)
        if path.exists():
            return self._of_file(path)
        return self._of_row(self._by_end(word))

    def _by_end(self, word: str) -> int:
        """The one image whose name ends with these folders and this file."""
        end = f"/{word.lstrip('/')}"
        rows = [row for row, name in enumerate(self.embedding.files) if name.endswith(end)]
        if len(rows) > 1:
            some = " and ".join(shown(self.embedding.files[row]) for row in rows[:2])
            raise UserError(f"{word}: {len(rows):,} images are called that, such as {some}; give more of the name")
        if not rows:
            hint = near(word, self._alike(word))
            raise UserError(f"{word}: no such file or folder, and no image of {self.embedding.folder}{hint}")
        return rows[0]

    def _alike(self, word: str) -> list[str]:
        """Names, whole and without their folders, that are about as long."""
        alike: dict[str, None] = {}
        for name in self.embedding.files:
            alike |= {form: None for form in (name, PurePath(name).name) if abs(len(form) - len(word)) <= 2}
            if len(alike) >= MOST_COMPARED:
                break
        return list(alike)

    def _of_row(self, row: int) -> Asked:
        vectors = np.asarray(self.embedding.vectors[row : row + 1], np.float32)
        return Asked((self.embedding.files[row],), vectors, np.array([row]))

    def _of_embedding(self, other: Embedding) -> Asked:
        self.embedding.require_same_encoder(other)
        if other.manifest["vectors_sha256"] == self.embedding.manifest["vectors_sha256"]:
            return Asked(other.files, other.vectors, np.arange(len(other)), whole=True)
        pictures = functools.cache(lambda: open_pictures(other, images=None, data_root=self.data_root)[0])

        def pixels(places: Sequence[int], size: int) -> Sequence[Pixels | None]:
            opened = pictures()  # a page wants it, and vectors alone do not
            return [None] * len(places) if opened is None else opened.squares(places, size)

        return Asked(other.files, other.vectors, np.full(len(other), -1), pixels, whole=True)

    def _of_file(self, path: Path) -> Asked:
        embedder = self.embedder()
        vectors = embedder.vectors(embedder.read(path)).numpy()
        return Asked((str(path),), _finite(vectors, embedder), np.array([-1]), _read_at([path]))

    def _of_folder(self, word: str) -> Asked:
        """Pictures that no embedding is wanted of."""
        embedder = self.embedder()
        source = open_source(word, size=embedder.square, least=embedder.shown, data_root=self.data_root)
        if source.kind != "files":
            raise UserError(f"{word}: is a packed set; embed it with hardpair embed, then search with that folder")
        vectors, names, broken = [np.empty((0, embedder.encoder.num_features), np.float32)], [], []
        with progress(f"embedding {source.name}", len(source)) as advance:
            for start in range(0, len(source), PART):
                part = source.part(start, start + PART)
                vectors.append(embedder.vectors(part.pixels).numpy())
                names += [facts["filename"] for facts in part.facts]
                broken += part.broken
                advance(PART)
        if not names:
            raise UserError(f"{word}: none of {several(len(source), 'picture')} can be read; the first: {broken[0]}")
        paths = [Path(word, name) for name in names]
        found = _finite(np.concatenate(vectors), embedder)
        return Asked([str(path) for path in paths], found, np.full(len(names), -1), _read_at(paths), False, (*broken,))


def _finite(vectors: NDArray[np.float32], embedder: Embedder) -> NDArray[np.float32]:
    if not np.isfinite(vectors).all():
        raise UserError(f"encoder: {shown(embedder.source)} gives values that are not finite; is it trained?")
    return vectors


def _read_at(paths: Sequence[Path]) -> Callable[[Sequence[int], int], Sequence[Pixels | None]]:
    """Squares of picture files, by their places among the queries."""

    def read(path: Path, size: int) -> Pixels | None:
        try:
            return read_square(path, size).pixels
        except UnusableError:
            return None

    def pixels(places: Sequence[int], size: int) -> Sequence[Pixels | None]:
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda place: read(paths[place], size), places))

    return pixels
