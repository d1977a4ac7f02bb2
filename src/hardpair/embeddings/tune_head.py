"""Fine-tuning the encoder together with a head, and whether that was better than the head alone.

The classifier starts as the linear head, which keeps the first steps from undoing what the encoder knows. A fifth of
the labels compares both: neither has seen it, and the learning rate is chosen on a part of the rest.
"""

import json
import logging
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from hardpair.data import Images, hold_out
from hardpair.embeddings.embedder import Embedder, open_embedder
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.fit_head import fit_head, fit_temperature
from hardpair.embeddings.head import LinearHead, save_head
from hardpair.embeddings.head_report import NORMAL_95, Report, report_of
from hardpair.embeddings.labels import Labelled
from hardpair.embeddings.pictures import Pictures
from hardpair.embeddings.tuned_folder import ABOUT, NAME, forget_network
from hardpair.errors import UserError, require_range
from hardpair.evaluate.features import outputs
from hardpair.files import write_atomically
from hardpair.models import Classifier, fingerprint, save_encoder, set_norm_momentum
from hardpair.recipes.tuning import Tuning
from hardpair.text import several
from hardpair.train.labelled import DivergedError, tune

RATES = (0.003, 0.01, 0.03, 0.1)  # for a batch of 64
BATCH = 64
HELD_SHARE, SEED = 0.2, 0
EPOCHS, LEAST_EPOCHS, VIEWS = 30, 5, 60_000  # fewer epochs where the labelled pictures are many
MOST_EPOCHS = 10_000
log = logging.getLogger("hardpair")


@dataclass(frozen=True)
class Trial:
    """Both ways on the same held-out pictures."""

    tuned: float  # share that is right
    linear: float
    interval: tuple[float, float]  # of 95 %, of the difference
    report: Report  # of the fine-tuned network
    rate: float
    temperature: float

    @property
    def better(self) -> bool:
        """Whether the fine-tuned network is taken."""
        return self.tuned > self.linear

    def __str__(self) -> str:
        low, high = self.interval
        taken = "the fine-tuned network is taken" if self.better else "the linear head is kept"
        return (
            f"on {several(self.report.measured, 'picture')} held out of both: fine-tuned {100 * self.tuned:.1f} %, "
            f"linear head {100 * self.linear:.1f} %, difference {100 * (self.tuned - self.linear):+.1f} points "
            f"(95 % interval {100 * low:+.1f} to {100 * high:+.1f}); {taken}"
        )


@dataclass(frozen=True)
class Tuned:
    """A network that beat the linear head, saved as an encoder and a head."""

    embedder: Embedder
    head: LinearHead


class Tuner:
    """Trains copies of an encoder and a classifier on labelled pictures, all of which are held in memory."""

    def __init__(
        self, embedding: Embedding, embedder: Embedder, labelled: Labelled, pictures: Pictures, *, epochs: int
    ) -> None:
        require_range("epochs", epochs, 0, MOST_EPOCHS)
        labelled = labelled.only(_firsts(embedding, labelled))
        squares = pictures.squares(labelled.rows.tolist(), embedder.square)
        there = np.array([square is not None for square in squares])
        if not there.any():
            raise UserError(f"{pictures.root}: no labelled picture is there any more; say with --images where they are")
        if not there.all():
            gone = several(int((~there).sum()), "labelled picture")
            log.warning("%s: %s cannot be read any more and will not be trained on", pictures.root, gone)
        self.labelled = labelled.only(there)
        self.labelled.require_two_classes()
        self.embedding, self.embedder, self.epochs = embedding, embedder, epochs
        block = torch.from_numpy(np.stack([square for square in squares if square is not None]))
        labels, classes = torch.from_numpy(self.labelled.labels), self.labelled.classes
        self.images = Images(block, labels, classes, f"{len(block):,} labelled pictures")
        self.vectors: NDArray[Any] = np.asarray(embedding.vectors[self.labelled.rows], np.float32)

    def compare(self) -> Trial:
        """Fine-tuning and the linear head on labels that neither has seen."""
        labels = torch.from_numpy(self.labelled.labels)
        kept, held = hold_out(labels, share=HELD_SHARE, seed=SEED)
        if not len(held):
            raise UserError("finetune: no class has two labels, so nothing can be held out to measure it; label more")
        rate, temperature = self._choose(kept)
        logits = self._logits(self._fit(kept, rate, "fine-tuning to compare"), held)
        linear = torch.from_numpy(self._head(kept).logits(self.vectors[held.numpy()]))
        right, other = (values.argmax(1) == labels[held] for values in (logits, linear))
        share, predicted = (logits / temperature).softmax(1).max(dim=1)
        counts = labels[kept].bincount(minlength=len(self.labelled.classes)).tolist()
        names, how = self.labelled.classes, "a fifth held out of fine-tuning"
        report = report_of(predicted.numpy(), share.numpy(), labels[held].numpy(), names, counts, how)
        interval = interval_of_difference(right.numpy(), other.numpy())
        return Trial(float(right.double().mean()), float(other.double().mean()), interval, report, rate, temperature)

    def save(self, out: Path, trial: Trial) -> Tuned:
        """Train on all labels; write the encoder and the head, which other verbs take."""
        out.mkdir(parents=True, exist_ok=True)
        network = self._fit(torch.arange(len(self.images)), trial.rate, "fine-tuning on all labels")
        forget_network(out, self.embedding)
        square, shown = self.embedder.square, self.embedder.shown
        about = {"name": NAME, "from": self.embedder.source, "from_fingerprint": fingerprint(self.embedder.encoder)}
        sizes = {"image_size": square, "view_size": shown / square}
        write_atomically(out / ABOUT, json.dumps({**about, **sizes}, indent=1).encode())
        save_encoder(network.encoder, out, step=self.embedder.encoder.step)
        embedder = open_embedder(out, device=self.embedder.device, precision=self.embedder.encoder.precision)
        embedder = replace(embedder, square=square, shown=shown)
        weight, bias = (tensor.detach().cpu().float().clone() for tensor in network.linear.parameters())
        facts = {"labels": len(self.labelled), "learning_rate": trial.rate, "report": trial.report.facts()}
        head = LinearHead(weight, bias, self.labelled.classes, trial.temperature, embedder.facts(), facts)
        save_head(head, out)
        return Tuned(embedder, head)

    def _choose(self, rows: Tensor) -> tuple[float, float]:
        """The learning rate of least log loss on a part of these rows, and the temperature that suits it there."""
        kept, held = (rows[part] for part in hold_out(self._labels(rows), share=HELD_SHARE, seed=SEED + 1))
        if not len(held):
            return RATES[1], 1.0
        found: list[tuple[float, float, float]] = []
        for number, rate in enumerate(RATES, start=1):
            try:
                network = self._fit(kept, rate, f"learning rate {number} of {len(RATES)}")
            except DivergedError:
                continue
            logits = self._logits(network, held)
            temperature = fit_temperature(logits, self._labels(held), len(held))
            loss = float(cross_entropy(logits.double() / temperature, self._labels(held)))
            found.append((loss, rate, temperature))
        if not found:
            raise DivergedError("finetune: the loss is not finite at any learning rate; is the encoder trained?")
        _, rate, temperature = min(found)
        return rate, temperature

    def _labels(self, rows: Tensor) -> Tensor:
        assert self.images.labels is not None
        return self.images.labels[rows]

    def _head(self, rows: Tensor) -> LinearHead:
        """A linear head on some of the labels; classes keep their numbers."""
        labels, encoder = self.labelled.labels[rows.numpy()], self.embedding.manifest["encoder"]
        return fit_head(self.vectors[rows.numpy()], labels, self.labelled.classes, encoder=encoder).head

    def _fit(self, rows: Tensor, rate: float, label: str) -> Classifier:
        """The whole network trained on some of the pictures, in eval mode."""
        images, device = self.images.select(rows).shown_at(self.embedder.shown), self.embedder.device
        network = self._start(rows).to(device).to(memory_format=torch.channels_last).train()
        tuning = tuning_for(len(images), rate, self.epochs)
        set_norm_momentum(network, min(10 / max(1, len(images) // tuning.batch_size), 0.1))
        labels = self._labels(rows).to(device)

        def loss(logits: Tensor, some: Tensor, _view: Tensor) -> Tensor:
            return cross_entropy(logits, labels[some.to(device)])

        tune(network, images, tuning, loss, classifier=network.linear, seed=SEED, device=device, label=label)
        return network.eval()

    def _start(self, rows: Tensor) -> Classifier:
        """The encoder as it is and a linear head on these rows, calibrated."""
        head = self._head(rows)
        network = Classifier(self.embedder.encoder, len(self.labelled.classes))
        with torch.no_grad():
            network.linear.weight.copy_(head.weight / head.temperature)
            network.linear.bias.copy_(head.bias / head.temperature)
        return network

    def _logits(self, network: Classifier, rows: Tensor) -> Tensor:
        """(n, C) for the plain pictures."""
        return outputs(network, self.images.select(rows).tested_at(self.embedder.shown), self.embedder.device)


def _firsts(embedding: Embedding, labelled: Labelled) -> NDArray[np.bool_]:
    """(n,) without second copies of a picture: a copy of what was learned would flatter what is held out."""
    firsts = np.zeros(len(labelled), dtype=bool)
    firsts[np.unique([embedding.sha256[row] for row in labelled.rows.tolist()], return_index=True)[1]] = True
    return firsts


def tuning_for(count: int, rate: float, epochs: int) -> Tuning:
    """The training on so many pictures; ``epochs`` 0 chooses their number."""
    batch = min(BATCH, max(2, count // 3), count)
    epochs = epochs or max(LEAST_EPOCHS, min(EPOCHS, VIEWS // count))
    return Tuning("sgd", rate * batch / BATCH, batch, epochs * max(1, count // batch))


def interval_of_difference(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> tuple[float, float]:
    """The 95 % interval of the difference of two accuracies on the same pictures."""
    difference = float(ours.mean() - theirs.mean())
    spread = math.sqrt(max(0.0, float((ours != theirs).mean()) - difference**2) / len(ours))
    return difference - NORMAL_95 * spread, difference + NORMAL_95 * spread
