"""Distillation: a network fine-tuned with few labels teaches another, on images whose labels nobody reads."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from hardpair.data import Images
from hardpair.evaluate.semi import FewLabels, LabelledStart
from hardpair.evaluate.trial import Bench, Judgement, Trial
from hardpair.models import Classifier, Encoder, build_encoder, save_encoder
from hardpair.recipes.tuning import Tuning, scaled_rate
from hardpair.train.tuner import tune

SELF, OTHER = 0.1, 1.0  # temperatures for a learner of the same shape, and of another


@dataclass(frozen=True)
class Distilling:
    """The settings published with it.

    Args:
        learner: encoder of the learner, "resnet18" say; None takes the shape of the one that teaches.
        learner_width: its width.
        temperature: divides the scores of both; None takes .1 for the same shape and 1 for another.
        epochs: passes over all training images.
        batch_size: images a step.
        rate: times the square root of the batch.
        weight_decay: of the weights.
        warmup: share of the steps.
    """

    learner: str | None = None
    learner_width: float = 1.0
    temperature: float | None = None
    epochs: int = 400
    batch_size: int = 4096
    rate: float = 0.1
    weight_decay: float = 1e-4
    warmup: float = 0.05


def distill_trials(bench: Bench, few: FewLabels, distilling: Distilling) -> Iterator[Trial]:
    """One trial for each share of labels."""
    images = bench.images("train")
    shape = learner_shape(bench.encoder, distilling)
    same = shape == bench.encoder.settings
    temperature = distilling.temperature or (SELF if same else OTHER)
    for share in few.labels:
        start = LabelledStart(bench, few, share)

        def judge(encoder: Encoder, start: LabelledStart = start) -> Judgement:
            taught_by, chosen = start.fit(encoder)
            learner = distil(taught_by, shape, images, distilling, temperature, bench)
            if encoder is bench.encoder:
                folder = bench.run / f"distilled-{start.share:g}"
                folder.mkdir(exist_ok=True)
                save_encoder(learner.encoder, folder, step=_tuning(images, distilling).steps)
            teaching = {f"taught_by_{name}": value for name, value in start.accuracies(taught_by).items()}
            return Judgement(start.accuracies(learner), {**chosen, **teaching})

        settings = {**start.settings(), **asdict(distilling), "temperature": temperature, "shape": dict(shape)}
        data = {"train": start.labelled, "unlabelled": images, "test": start.test}
        yield Trial("distill", settings, data, judge, start.facts())


def learner_shape(encoder: Encoder, distilling: Distilling) -> dict[str, Any]:
    """The settings that build the learner."""
    if distilling.learner is None:
        return encoder.settings
    small = encoder.settings["small_images"]
    return build_encoder(distilling.learner, width=distilling.learner_width, small_images=small).settings


def distil(
    taught_by: Classifier,
    shape: Mapping[str, Any],
    images: Images,
    distilling: Distilling,
    temperature: float,
    bench: Bench,
) -> Classifier:
    """A fresh network that has learned to answer as the other does, in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(bench.seed)
        learner = Classifier(build_encoder(**shape), len(images.classes))
    learner = learner.to(bench.device).to(memory_format=torch.channels_last).train()

    def loss(scores: Tensor, _rows: Tensor, view: Tensor) -> Tensor:
        with torch.no_grad():
            answers = taught_by(view)
        return distillation_loss(scores, answers, temperature)

    tuning = _tuning(images, distilling)
    tune(learner, images, tuning, loss, seed=bench.seed, device=bench.device, label=f"distilling with {images.name}")
    return learner.eval()


def distillation_loss(scores: Tensor, answers: Tensor, temperature: float) -> Tensor:
    """Cross entropy between softened answers, times the square of the temperature, so that it weighs the same."""
    soft = (answers / temperature).softmax(1)
    return -(soft * log_softmax(scores / temperature, dim=1)).sum(1).mean() * temperature**2


def _tuning(images: Images, distilling: Distilling) -> Tuning:
    batch = min(distilling.batch_size, len(images))
    return Tuning(
        "lars",
        scaled_rate(distilling.rate, "sqrt(batch)", batch),
        batch,
        distilling.epochs * (len(images) // batch),
        weight_decay=distilling.weight_decay,
        warmup=distilling.warmup,
    )
