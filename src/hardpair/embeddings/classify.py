"""`hardpair classify`: labels of some pictures → a calibrated class for all of them, and a head for new ones."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.csv_files import refuse_other
from hardpair.embeddings.embed import embed_source
from hardpair.embeddings.embedder import Embedder, embedder_of
from hardpair.embeddings.embedding import MANIFEST, Embedding, open_embedding
from hardpair.embeddings.fit_head import fit_head
from hardpair.embeddings.head import LinearHead, load_head, refuse_other_head, save_head
from hardpair.embeddings.head_report import Report, report_of
from hardpair.embeddings.labels import Labelled, labels_from_folders, labels_from_table
from hardpair.embeddings.parts import BEGUN, FOLDER
from hardpair.embeddings.pictures import Pictures, moved_to
from hardpair.embeddings.predictions import COLUMNS, Predictions, predict_all
from hardpair.embeddings.sheet import refuse_other_page
from hardpair.embeddings.source import open_again, open_source
from hardpair.embeddings.taught import remember, taught_rows
from hardpair.embeddings.tune_head import Tuner
from hardpair.embeddings.tuned_folder import VECTORS, forget_network, refuse_other_encoder
from hardpair.errors import UserError, shown
from hardpair.machine import prepare_to_compute
from hardpair.text import several
from hardpair.train.parallel import pick_device

FilePath = str | os.PathLike[str]
NAMED = 3  # classes of one label that a warning names
log = logging.getLogger("hardpair")


def classify(
    pictures: Embedding | FilePath,
    *,
    labels: FilePath | None = None,
    head: LinearHead | FilePath | None = None,
    csv: FilePath | None = None,
    page: FilePath | None = None,
    save_to: FilePath | None = None,
    finetune: bool = False,
    epochs: int = 0,
    vectors: FilePath | None = None,
    encoder: FilePath | None = None,
    images: FilePath | None = None,
    data_root: FilePath = "data",
    device: str = "auto",
    threads: int = 0,
) -> Predictions:
    """The most probable class of every picture, by a linear head on the vectors of an embedding.

    Without ``head`` one is fitted on the labels: its strength is chosen by cross-validation and its probabilities are
    calibrated on labels that were held out. With ``head``, labels only measure it.

    Args:
        pictures: an embedding or its folder; with ``head`` also a folder or a list of pictures, which are embedded.
        labels: a CSV with the columns filename and label; without it, the folders that the pictures lie in are their
            labels, and where there is a training split those outside of it only measure the head.
        head: a head that was fitted before, or its folder.
        csv: also write the predictions to this file.
        page: also write a page with the pictures that the head is least sure of.
        save_to: also save the head in this folder.
        finetune: train the encoder too, and take that network if it is right more often on labels held out of both; it
            is saved in ``save_to``, with an embedding of the pictures.
        epochs: of fine-tuning; 0 chooses.
        vectors: keep the vectors of new pictures in this folder.
        encoder: where the encoder is now, if it was moved.
        images: where the pictures of the embedding are now, if they were moved.
        data_root: where downloaded sets are kept.
        device: for the encoder: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """
    csv_file, page_file, folder = [None if place is None else Path(place) for place in (csv, page, save_to)]
    root = moved_to(images)
    if finetune and (folder is None or head is not None):
        raise UserError(
            "finetune: " + ("say where to save the network" if head is None else "needs labels, not a head")
        )
    _refuse_others(csv_file, page_file, folder)
    prepare_to_compute(threads)
    here = Here("" if encoder is None else os.fspath(encoder), root, Path(data_root), device)
    if head is not None:
        head = head if isinstance(head, LinearHead) else load_head(os.fspath(head))
        with _opened(pictures, head, here, vectors) as embedding:
            made = _measure(predict_all(head, embedding, _given(embedding, labels)))
            return _written(made, csv_file, page_file, folder, here)
    embedding = pictures if isinstance(pictures, Embedding) else open_embedding(os.fspath(pictures))
    if finetune and folder is not None:
        refuse_other_encoder(folder, embedding)
    given = labels_from_folders(embedding) if labels is None else labels_from_table(embedding, Path(labels))
    taught = given if labels is not None else _training_part(embedding, given)
    made = _fitted(embedding, given, taught)
    if finetune and folder is not None:
        made = _tuned(made, taught, folder, here, epochs)
    return _written(made, csv_file, page_file, folder, here)


class Here:
    """Where things are and where to compute."""

    def __init__(self, encoder: str, images: Path | None, data_root: Path, device: str) -> None:
        self.encoder, self.images, self.data_root, self.device = encoder, images, data_root, device

    def embedder(self, head_or_embedding: Embedding | LinearHead) -> Embedder:
        """The encoder that the vectors are of."""
        it = head_or_embedding
        known = it.manifest if isinstance(it, Embedding) else {"encoder": it.encoder}
        return embedder_of(known, device=pick_device(self.device), source=self.encoder)

    def embed(self, embedder: Embedder, pictures: str, out: Path) -> Embedding:
        """Vectors of new pictures."""
        square, least = embedder.square, embedder.shown
        source = open_source(pictures, size=square, least=least, data_root=self.data_root, field="pictures")
        return embed_source(embedder, source, out)

    def embed_again(self, embedder: Embedder, embedding: Embedding, out: Path) -> Embedding:
        """Other vectors of the same pictures."""
        return embed_source(embedder, open_again(embedding, root=self.images, data_root=self.data_root), out)


def _refuse_others(csv: Path | None, page: Path | None, folder: Path | None) -> None:
    """Before any work: nothing of another kind is written over."""
    if csv is not None:
        refuse_other(csv, COLUMNS)
    if page is not None:
        refuse_other_page(page)
    if folder is not None:
        refuse_other_head(folder)


@contextmanager
def _opened(
    pictures: Embedding | FilePath, head: LinearHead, here: Here, vectors: FilePath | None
) -> Iterator[Embedding]:
    """An embedding as it is; of pictures a new one, which is thrown away afterwards unless it has a folder."""
    if isinstance(pictures, Embedding):
        yield pictures
    elif any((Path(pictures) / file).exists() for file in (MANIFEST, f"{FOLDER}/{BEGUN}")):
        yield open_embedding(os.fspath(pictures))
    else:
        with tempfile.TemporaryDirectory(prefix="hardpair-", ignore_cleanup_errors=True) as folder:
            out = Path(folder, VECTORS) if vectors is None else Path(vectors)
            yield here.embed(here.embedder(head), os.fspath(pictures), out)


def _given(embedding: Embedding, table: FilePath | None) -> Labelled | None:
    """The labels to measure a head by, if there are any."""
    if table is not None:
        return labels_from_table(embedding, Path(table))
    return labels_from_folders(embedding) if embedding.classes else None


def _training_part(embedding: Embedding, given: Labelled) -> Labelled:
    """Of images with splits those of the training split."""
    train = np.array([embedding.splits[row] == "train" for row in given.rows.tolist()], dtype=bool)
    return given.only(train) if train.any() else given


def _fitted(embedding: Embedding, given: Labelled, taught: Labelled) -> Predictions:
    """A head on the labels that teach, and what it says."""
    taught.require_two_classes()
    _warn_of_single_labels(taught)
    vectors = np.asarray(embedding.vectors[taught.rows], dtype=np.float32)
    contents = [embedding.sha256[row] for row in taught.rows.tolist()]
    fit = fit_head(vectors, taught.labels, taught.classes, encoder=embedding.manifest["encoder"], contents=contents)
    head = remember(fit.head, embedding, taught.rows)
    made = replace(predict_all(head, embedding, given), report=fit.report)
    return _measure(made, taught) if len(taught) < len(given) else made


def _warn_of_single_labels(taught: Labelled) -> None:
    counts = np.bincount(taught.labels, minlength=len(taught.classes))
    single = [shown(name) for name, count in zip(taught.classes, counts.tolist(), strict=True) if count == 1]
    if not single:
        return
    names = ", ".join(single[:NAMED]) + (" …" if len(single) > NAMED else "")
    have = "1 class has one label" if len(single) == 1 else f"{len(single):,} classes have one label each"
    what = "learned, but nothing measures how well; label two or more of each"
    if len(single) == len(taught.classes):
        what = "learned, but neither strength nor probabilities could be tuned; label two or more of each"
    log.warning("%s: %s (%s): %s", taught.source, have, names, what)


def _measure(made: Predictions, taught: Labelled | None = None) -> Predictions:
    """The same with a report on the labelled pictures that did not teach the head."""
    classes = made.head.classes
    number = {name: place for place, name in enumerate(classes)}
    known = np.array([*(number.get(name, -1) for name in made.given_classes), -1], dtype=np.int64)[made.given]
    apart = _unseen(made, taught)
    rows = np.flatnonzero(apart & (known >= 0))
    if strange := int(apart.sum()) - len(rows):
        log.warning("%s have labels that the head does not know; they are not counted", several(strange, "picture"))
    if not len(rows):
        return made
    counts = [0] * len(classes) if taught is None else np.bincount(taught.labels, minlength=len(classes)).tolist()
    how = "pictures it was not fitted on" if taught is not None else "labels that were given"
    test: Report = report_of(made.best[rows, 0], made.shares[rows, 0], known[rows], classes, counts, how)
    return replace(made, test=test)


def _unseen(made: Predictions, taught: Labelled | None) -> NDArray[np.bool_]:
    """(N,) pictures with a label of which no copy taught the head."""
    apart: NDArray[np.bool_] = made.given >= 0
    if taught is not None:
        apart[taught.rows] = False
    seen = apart & taught_rows(made.head, made.embedding)
    if seen.any():
        what = "taught the head" if taught is None else "are copies of those that taught the head"
        log.warning("%s with a label %s; they are not counted", several(int(seen.sum()), "picture"), what)
    return apart & ~seen


def _tuned(made: Predictions, taught: Labelled, folder: Path, here: Here, epochs: int) -> Predictions:
    """The fine-tuned network's predictions where it was better, else the same as before; and which."""
    embedding = made.embedding
    pictures = Pictures(embedding, root=here.images, data_root=here.data_root)
    tuner = Tuner(embedding, here.embedder(embedding), taught, pictures, epochs=epochs)
    trial = tuner.compare()
    if not trial.better:
        return replace(made, judgement=str(trial))
    tuned = tuner.save(folder, trial)
    again = here.embed_again(tuned.embedder, embedding, folder / VECTORS)
    rows = again.rows_of(embedding.files)
    given = np.full(len(again), -1, dtype=np.int64)
    for name, label in zip(embedding.files, made.given.tolist(), strict=True):
        if name in rows:
            given[rows[name]] = label
    labelled = Labelled(np.flatnonzero(given >= 0), given[given >= 0], made.given_classes, taught.source)
    head = remember(tuned.head, embedding, taught.rows)
    new = replace(predict_all(head, again, labelled), report=trial.report, judgement=str(trial))
    if made.test is None:
        return new
    return _measure(new, taught.moved([rows.get(embedding.files[row], -1) for row in taught.rows.tolist()]))


def _written(made: Predictions, csv: Path | None, page: Path | None, folder: Path | None, here: Here) -> Predictions:
    if folder is not None:
        forget_network(folder, made.embedding)
        save_head(made.head, folder)
    if csv is not None:
        made.write_csv(csv)
    if page is not None:
        made.write_page(page, images=here.images, data_root=here.data_root)
    return made
