"""Distillation: a network fine-tuned with few labels teaches another, on images whose labels are not read."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from hardpair.data import Images
from hardpair.evaluate.context import Context, Measurement, Task
from hardpair.evaluate.semi import FewLabels
from hardpair.models import DEPTHS, Classifier, Encoder, build_encoder, save_classifier, save_encoder
from hardpair.protocol_settings import Distilled, Settings
from hardpair.recipes.tuning import Tuning, scaled_rate
from hardpair.train.labelled import tune

SAME_SHAPE, OTHER_SHAPE = 0.1, 1.0  # temperature for a learner of the teacher's shape, and of another
LARS = {"rate": 0.1, "weight_decay": 1e-4, "warmup": 0.05}  # rate times sqrt(batch); warm-up as a share of the steps


def distill_tasks(context: Context, settings: Settings) -> Iterator[Task]:
    """One task for each share of labels."""
    images, distilled = context.crops("train"), settings.distilled
    shape, tuning = learner_shape(context.encoder, distilled), learner_tuning(distilled, len(images))
    temperature = SAME_SHAPE if shape == context.encoder.settings else OTHER_SHAPE
    used = {**asdict(distilled), "temperature": temperature, **LARS, "shape": dict(shape)}
    used |= {"learner_width": shape.get("width", 1), "learner_batch_size": tuning.batch_size}
    for share in settings.tuned.labels:
        few = FewLabels(context, settings.tuned, share)
        distillation = Distillation(context, few, images, shape, temperature, tuning)
        data = {"train": few.labelled, "unlabelled": images, "test": few.test}
        task_settings = {**few.settings(), **used}
        yield Task("distill", task_settings, data, distillation.measure, few.details, few.head_hash)


def learner_shape(encoder: Encoder, distilled: Distilled) -> dict[str, Any]:
    """The settings that build the learner's encoder."""
    if distilled.learner is None:
        return encoder.settings
    if distilled.learner not in DEPTHS:
        return build_encoder(distilled.learner, image_size=encoder.settings.get("image_size", 0)).settings
    small = encoder.settings.get("small_images", False)
    return build_encoder(distilled.learner, width=distilled.learner_width, small_images=small).settings


def learner_tuning(distilled: Distilled, images: int) -> Tuning:
    """The training of the learner on so many images."""
    batch = min(distilled.learner_batch_size, images)
    rate, steps = scaled_rate(LARS["rate"], "sqrt(batch)", batch), distilled.learner_epochs * (images // batch)
    return Tuning("lars", rate, batch, steps, weight_decay=LARS["weight_decay"], warmup=LARS["warmup"])


@dataclass(frozen=True)
class Distillation:
    """Fine-tune a teacher with labels, then train a learner without."""

    context: Context
    few: FewLabels
    images: Images
    shape: Mapping[str, Any]
    temperature: float
    tuning: Tuning

    def measure(self, encoder: Encoder) -> Measurement:
        """Accuracies of the learner; the one taught by the run's own encoder is saved in the run."""
        context = self.context
        teacher, chosen = self.few.fit(encoder)
        learner = distil(
            teacher, self.shape, self.images, self.tuning, self.temperature, seed=context.seed, device=context.device
        )
        if encoder is context.encoder and context.on == "test":
            self._save(learner)
        of_teacher = {f"taught_by_{name}": value for name, value in self.few.accuracies(teacher).items()}
        return Measurement(self.few.accuracies(learner), {**chosen, **of_teacher})

    def _save(self, learner: Classifier) -> None:
        kernels = "-sk" if self.shape.get("sk") else ""
        name = f"distilled-{self.few.share:g}-{self.shape['name']}-{self.shape.get('width', 1):g}x{kernels}"
        folder = self.context.run / name
        folder.mkdir(exist_ok=True)
        save_encoder(learner.encoder, folder, step=self.tuning.steps)
        save_classifier(learner, folder, self.images.classes)
        self.context.say(f"the learner is saved in {folder}")


def distil(
    teacher: Classifier,
    shape: Mapping[str, Any],
    images: Images,
    tuning: Tuning,
    temperature: float,
    *,
    seed: int,
    device: torch.device,
) -> Classifier:
    """A fresh network that has learned to answer as the teacher does, in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learner = Classifier(build_encoder(**shape), len(images.classes))
    learner = learner.to(device).to(memory_format=torch.channels_last).train()

    def loss(logits: Tensor, _rows: Tensor, view: Tensor) -> Tensor:
        with torch.no_grad():
            teacher_logits = teacher(view)
        return distillation_loss(logits, teacher_logits, temperature)

    label = f"distilling with {images.name}"
    tune(learner, images, tuning, loss, classifier=learner.linear, seed=seed, device=device, label=label)
    return learner.eval()


def distillation_loss(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Cross entropy between softened probabilities, times the squared temperature, which keeps the gradient's scale."""
    soft = (teacher_logits / temperature).softmax(1)
    return -(soft * log_softmax(logits / temperature, dim=1)).sum(1).mean() * temperature**2
