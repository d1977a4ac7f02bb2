"""Few labels: the whole network fine-tuned on a share of the labels, and distilled into another with the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from hardpair.data import Images, hold_out, label_subset
from hardpair.errors import UserError
from hardpair.evaluate.features import outputs
from hardpair.evaluate.metrics import accuracies
from hardpair.evaluate.trial import Bench, Judgement, Trial
from hardpair.evaluate.tuned import FineTuner
from hardpair.models import Classifier, Encoder, fingerprint, load_head_layer, mlp
from hardpair.models.heads import widths
from hardpair.recipes.tuning import PRESETS, Preset, Tuning

FIRST = next(iter(PRESETS))
HELD_SHARE = 0.2  # of the labelled images, where a preset names several rates


@dataclass(frozen=True)
class FewLabels:
    """How few, and how to use them.

    Args:
        labels: shares of the labels.
        preset_name: what people call the next.
        preset: the published settings.
        batch_size: in place of the published one.
        subset_seed: decides which images are labelled, where there is no official list.
    """

    labels: tuple[float, ...] = (0.01, 0.1)
    preset_name: str = FIRST
    preset: Preset = PRESETS[FIRST]
    batch_size: int | None = None
    subset_seed: int = 0


def semi_trials(bench: Bench, few: FewLabels) -> Iterator[Trial]:
    """One trial for each share of labels."""
    for share in few.labels:
        start = LabelledStart(bench, few, share)

        def judge(encoder: Encoder, start: "LabelledStart" = start) -> Judgement:
            network, chosen = start.fit(encoder)
            return Judgement(start.accuracies(network), chosen)

        data = {"train": start.labelled, "test": start.test}
        yield Trial("semi", start.settings(), data, judge, start.facts(), start.own)


class LabelledStart:
    """A network fine-tuned with a share of the labels."""

    def __init__(self, bench: Bench, few: FewLabels, share: float) -> None:
        self.bench, self.few, self.share = bench, few, share
        train = bench.images("train")
        rows, self.subset = label_subset(train, share, seed=few.subset_seed, root=bench.root)
        self.labelled = train.select(rows)
        self.test = bench.centre(lambda size: bench.images("test", size))
        self.keeps_head = few.preset.keep_head_layer and share < 1  # with all labels the encoder is the better start
        # A run without a layer shows here, before any work.
        self.own = fingerprint(self._own_head_layer()) if self.keeps_head else ""
        bench.say(
            f"{len(self.labelled):,} labelled images of {len(train):,} ({share:.3g} of the labels, {self.subset})"
        )

    def settings(self) -> dict[str, Any]:
        """All that made the score."""
        preset = asdict(self.few.preset)
        return {
            "labels": self.share,
            "preset": self.few.preset_name,
            **preset,
            "keep_head_layer": self.keeps_head,
            "batch_size": self._candidates(self.labelled)[0].batch_size,
            "subset": self.subset,
            "subset_seed": self.few.subset_seed,
            "held_share": HELD_SHARE if len(self._candidates(self.labelled)) > 1 else 0.0,
        }

    def facts(self) -> dict[str, Any]:
        """How many labels were really used."""
        return {"labelled_images": len(self.labelled)}

    def fit(self, encoder: Encoder) -> tuple[Classifier, dict[str, float]]:
        """The fine-tuned network, and the rate and length that were chosen."""
        bench = self.bench
        tuner = FineTuner(encoder, bench.seed, bench.device, self._head_layer(encoder), kept=bench.kept)
        label = f"fine-tuning on {len(self.labelled):,} images"
        tuning = self._candidates(self.labelled)[self._choose(tuner, label)]
        chosen = {"learning_rate": tuning.learning_rate, "steps": tuning.steps}
        return tuner.fit(self.labelled, tuning, label=label), chosen

    def accuracies(self, network: nn.Module) -> dict[str, float]:
        """Top-1 and top-5 on the test images."""
        assert self.test.labels is not None
        return accuracies(outputs(network, self.test, self.bench.device), self.test.labels)

    def _choose(self, tuner: FineTuner, label: str) -> int:
        assert self.labelled.labels is not None
        if len(self._candidates(self.labelled)) == 1:
            return 0
        kept, held = hold_out(self.labelled.labels, share=HELD_SHARE, seed=0)
        if not len(held):
            raise UserError(
                f"preset: {self.few.preset_name} chooses among rates, but no class has two labelled images to choose "
                "with; take a preset with one rate"
            )
        train = self.labelled.select(kept)
        return tuner.choose(self._candidates(train), train, self.labelled.select(held), metric="top1", label=label)[0]

    def _candidates(self, images: Images) -> Sequence[Tuning]:
        return self.few.preset.candidates(len(images), share=self.share, batch_size=self.few.batch_size)

    def _head_layer(self, encoder: Encoder) -> nn.Sequential | None:
        """The run's own; for a random encoder one as random."""
        if not self.keeps_head:
            return None
        layer = self._own_head_layer()
        if encoder is self.bench.encoder:
            return layer
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.bench.seed)
            fresh = mlp(*widths(layer), 1)[0]
        assert isinstance(fresh, nn.Sequential)
        return fresh

    def _own_head_layer(self) -> nn.Sequential:
        return load_head_layer(self.bench.run, inputs=self.bench.encoder.num_features)
