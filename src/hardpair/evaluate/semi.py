"""Semi-supervised evaluation: the whole network fine-tuned with a share of the labels."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import nn

from hardpair.data import Images, hold_out, label_subset
from hardpair.errors import UserError
from hardpair.evaluate.context import Context, Measurement, Task
from hardpair.evaluate.features import outputs
from hardpair.evaluate.finetune import FineTuner
from hardpair.evaluate.metrics import accuracies
from hardpair.models import Classifier, Encoder, fingerprint, load_head_layer, mlp
from hardpair.models.heads import widths
from hardpair.protocol_settings import Settings, Tuned
from hardpair.recipes.tuning import PRESETS, Tuning

HELD_SHARE = 0.2  # of the labelled images, if a preset names several learning rates


def semi_tasks(context: Context, settings: Settings) -> Iterator[Task]:
    """One task for each share of labels."""
    for share in settings.tuned.labels:
        few = FewLabels(context, settings.tuned, share)
        data = {"train": few.labelled, "test": few.test}
        yield Task("semi", few.settings(), data, few.measure, few.details, few.head_hash)


class FewLabels:
    """Fine-tuning with a share of the labels."""

    def __init__(self, context: Context, tuned: Tuned, share: float) -> None:
        self.context, self.tuned, self.share = context, tuned, share
        self.preset = PRESETS[tuned.preset]
        if tuned.epochs is not None:
            self.preset = replace(self.preset, epochs=(tuned.epochs,), epochs_with_few=(tuned.epochs,))
        train = context.crops("train")
        rows, self.subset = label_subset(train, share, seed=tuned.subset_seed, root=context.root)
        self.labelled = train.select(rows)
        self.details = {"labelled_images": len(self.labelled)}  # how many labels were really used
        self.test = context.centre(functools.partial(context.images, "test"))
        self.keeps_head = self.preset.keep_head_layer and share < 1  # with all labels the encoder is the better start
        # A run without a head layer is refused here, before any work.
        self.head_hash = fingerprint(self._run_head_layer()) if self.keeps_head else ""
        context.say(
            f"{len(self.labelled):,} labelled images of {len(train):,} ({share:.3g} of the labels, {self.subset})"
        )

    def settings(self) -> dict[str, Any]:
        """Everything that made the score."""
        candidates = self._candidates(self.labelled)
        return {
            "labels": self.share,
            "preset": self.tuned.preset,
            **asdict(self.preset),
            "keep_head_layer": self.keeps_head,
            "batch_size": candidates[0].batch_size,
            "subset": self.subset,
            "subset_seed": self.tuned.subset_seed,
            "held_share": HELD_SHARE if len(candidates) > 1 else 0.0,
        }

    def measure(self, encoder: Encoder) -> Measurement:
        """Accuracies of the fine-tuned network."""
        network, chosen = self.fit(encoder)
        return Measurement(self.accuracies(network), chosen)

    def fit(self, encoder: Encoder) -> tuple[Classifier, dict[str, float]]:
        """The fine-tuned network, and the learning rate and number of steps that were chosen."""
        head_layer, partial_results = self._head_layer(encoder), self.context.partial_results
        tuner = FineTuner(encoder, self.context.seed, self.context.device, head_layer, partial_results=partial_results)
        label = f"fine-tuning on {len(self.labelled):,} images"
        tuning = self._candidates(self.labelled)[self._choose(tuner, label)]
        chosen = {"learning_rate": tuning.learning_rate, "steps": tuning.steps}
        return tuner.fit(self.labelled, tuning, label=label), chosen

    def accuracies(self, network: nn.Module) -> dict[str, float]:
        """Of a classifier on the test images."""
        assert self.test.labels is not None
        return accuracies(outputs(network, self.test, self.context.device), self.test.labels)

    def _choose(self, tuner: FineTuner, label: str) -> int:
        assert self.labelled.labels is not None
        if len(self._candidates(self.labelled)) == 1:
            return 0
        kept, held = hold_out(self.labelled.labels, share=HELD_SHARE, seed=0)
        if not len(held):
            raise UserError(
                f"preset: {self.tuned.preset} chooses among learning rates, but no class has two labelled images to "
                "choose with; take a preset with one rate"
            )
        train = self.labelled.select(kept)
        return tuner.choose(self._candidates(train), train, self.labelled.select(held), metric="top1", label=label)[0]

    def _candidates(self, images: Images) -> Sequence[Tuning]:
        return self.preset.candidates(len(images), share=self.share, batch_size=self.tuned.batch_size)

    def _head_layer(self, encoder: Encoder) -> nn.Sequential | None:
        """The run's own; for a random encoder a random one of the same shape."""
        if not self.keeps_head:
            return None
        layer = self._run_head_layer()
        if encoder is self.context.encoder:
            return layer
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.context.seed)
            fresh = mlp(*widths(layer), 1)[0]
        assert isinstance(fresh, nn.Sequential)
        return fresh

    def _run_head_layer(self) -> nn.Sequential:
        return load_head_layer(self.context.run, inputs=self.context.encoder.num_features)
