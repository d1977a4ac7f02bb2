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
from hardpair.models import Classifier, Encoder, build_encoder, save_classifier, save_encoder
from hardpair.recipes.tuning import Tuning, scaled_rate
from hardpair.train.finetune import tune

SELF, OTHER = 0.1, 1.0  # temperatures for a learner of the same shape, and of another


@dataclass(frozen=True)
class Distilling:
    """The settings published with it.

    Args:
        learner: encoder of the learner, "resnet18" say; None takes the shape of the one that teaches.
        learner_width: its width.
        learner_epochs: passes over all training images.
        learner_batch_size: images per step.
        temperature: divides the scores of both; None takes .1 for the same shape and 1 for another.
        rate: times the square root of the batch.
        weight_decay: of the weights, but for the classifier's.
        warmup: share of the steps.
    """

    learner: str | None = None
    learner_width: float = 1.0
    learner_epochs: int = 400
    learner_batch_size: int = 4096
    temperature: float | None = None
    rate: float = 0.1
    weight_decay: float = 1e-4
    warmup: float = 0.05

    def tuning(self, images: int) -> Tuning:
        """The training of the learner on so many images."""
        batch = min(self.learner_batch_size, images)
        rate, steps = scaled_rate(self.rate, "sqrt(batch)", batch), self.learner_epochs * (images // batch)
        return Tuning("lars", rate, batch, steps, weight_decay=self.weight_decay, warmup=self.warmup)


def distill_trials(bench: Bench, few: FewLabels, distilling: Distilling) -> Iterator[Trial]:
    """One trial for each share of labels."""
    images = bench.images("train")
    shape = learner_shape(bench.encoder, distilling)
    temperature = distilling.temperature or (SELF if shape == bench.encoder.settings else OTHER)
    settings = {**asdict(distilling), "temperature": temperature, "shape": dict(shape)}
    settings |= {"learner_width": shape["width"], "learner_batch_size": distilling.tuning(len(images)).batch_size}
    for share in few.labels:
        start = LabelledStart(bench, few, share)
        judge = Distillation(bench, start, images, shape, temperature, distilling.tuning(len(images)))
        data = {"train": start.labelled, "unlabelled": images, "test": start.test}
        yield Trial("distill", {**start.settings(), **settings}, data, judge, start.facts(), start.own)


def learner_shape(encoder: Encoder, distilling: Distilling) -> dict[str, Any]:
    """The settings that build the learner."""
    if distilling.learner is None:
        return encoder.settings
    small = encoder.settings["small_images"]
    return build_encoder(distilling.learner, width=distilling.learner_width, small_images=small).settings


@dataclass(frozen=True)
class Distillation:
    """Fine-tune with labels, then teach a fresh network without."""

    bench: Bench
    start: LabelledStart
    images: Images
    shape: Mapping[str, Any]
    temperature: float
    tuning: Tuning

    def __call__(self, encoder: Encoder) -> Judgement:
        """Accuracies of the learner; it is kept in the run, where its encoder is the run's own."""
        taught_by, chosen = self.start.fit(encoder)
        learner = self.teach(taught_by)
        if encoder is self.bench.encoder and self.bench.on == "test":
            self._keep(learner)
        teaching = {f"taught_by_{name}": value for name, value in self.start.accuracies(taught_by).items()}
        return Judgement(self.start.accuracies(learner), {**chosen, **teaching})

    def teach(self, taught_by: Classifier) -> Classifier:
        """A fresh network that has learned to answer as the other does, in eval mode."""
        bench = self.bench
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(bench.seed)
            learner = Classifier(build_encoder(**self.shape), len(self.images.classes))
        learner = learner.to(bench.device).to(memory_format=torch.channels_last).train()

        def loss(scores: Tensor, _rows: Tensor, view: Tensor) -> Tensor:
            with torch.no_grad():
                answers = taught_by(view)
            return distillation_loss(scores, answers, self.temperature)

        tune(
            learner,
            self.images,
            self.tuning,
            loss,
            classifier=learner.linear,
            seed=bench.seed,
            device=bench.device,
            label=f"distilling with {self.images.name}",
        )
        return learner.eval()

    def _keep(self, learner: Classifier) -> None:
        kernels = "-sk" if self.shape.get("sk") else ""
        name = f"distilled-{self.start.share:g}-{self.shape['name']}-{self.shape['width']:g}x{kernels}"
        folder = self.bench.run / name
        folder.mkdir(exist_ok=True)
        save_encoder(learner.encoder, folder, step=self.tuning.steps)
        save_classifier(learner, folder, self.images.classes)
        self.bench.say(f"the learner is kept in {folder}")


def distillation_loss(scores: Tensor, answers: Tensor, temperature: float) -> Tensor:
    """Cross entropy between softened answers, times the square of the temperature, so that it weighs the same."""
    soft = (answers / temperature).softmax(1)
    return -(soft * log_softmax(scores / temperature, dim=1)).sum(1).mean() * temperature**2
