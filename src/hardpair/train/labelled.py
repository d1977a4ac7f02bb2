"""Training with labels: fine-tuning an encoder (`tune`), and the supervised baseline of pretraining (`Supervised`)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from hardpair.data import Images, epoch_order
from hardpair.data.layout import why_unlabelled
from hardpair.data.progress import progress
from hardpair.errors import UserError
from hardpair.methods import Method
from hardpair.models import Encoder
from hardpair.precision import to_float32
from hardpair.recipes.tuning import Tuning
from hardpair.train.optimisers import build_optimiser, set_learning_rate
from hardpair.views import POLICIES, Draw, augmented_view

LOOK_EVERY = 100  # steps; each look waits for the device
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of the outputs, which images these are, and what was shown


class DivergedError(UserError):
    """The loss is no longer a number."""


def tune(
    network: nn.Module,
    images: Images,
    tuning: Tuning,
    loss: Loss,
    *,
    classifier: nn.Module,
    seed: int,
    device: torch.device,
    label: str,
) -> None:
    """Train what takes a gradient in the network, whose last layer is the classifier, on random crops and flips."""
    # A classifier that starts at zero would hardly move under LARS, whose steps are a share of the weight's own norm.
    plain = classifier.parameters() if tuning.optimiser == "lars" else ()
    optimiser = build_optimiser(network, tuning, nesterov=tuning.optimiser == "sgd", like_biases=plain)
    positions = torch.arange(tuning.batch_size, device=device)
    steps_per_epoch = len(images) // tuning.batch_size
    order = torch.empty(0)
    with progress(label, tuning.steps) as advance:
        for step in range(tuning.steps):
            epoch, index = divmod(step, steps_per_epoch)
            if index == 0:
                order = epoch_order(len(images), seed=seed, epoch=epoch)
            rows = order[index * tuning.batch_size :][: tuning.batch_size]
            pixels = images.batch(rows).to(device, non_blocking=True)
            view = augmented_view(pixels, POLICIES["crop"], Draw(seed, step, positions, size=images.shown))
            set_learning_rate(optimiser, rate_at(tuning, step))
            value = loss(network(view), rows, view)
            value.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            advance(1)
            if (step + 1) % LOOK_EVERY == 0 or step + 1 == tuning.steps:
                _require_finite(value, tuning, label)


def _require_finite(value: Tensor, tuning: Tuning, label: str) -> None:
    if not bool(value.isfinite()):
        advice = f"a lower learning rate than {tuning.learning_rate:g} may help"
        raise DivergedError(f"{label}: the loss is not finite; {advice}")


def rate_at(tuning: Tuning, step: int) -> float:
    """Linear warm-up, then a cosine to 0."""
    warmup = round(tuning.warmup * tuning.steps)
    if step < warmup:
        return tuning.learning_rate * (step + 1) / warmup
    return tuning.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(tuning.steps - warmup, 1)))


class Supervised(Method):
    """An encoder and a linear classifier, trained together by cross entropy on random crops and flips.

    It keeps the contract of a method, so the one training loop runs it; the labels are looked up by row.
    """

    labels: Tensor

    def __init__(self, encoder: Encoder, images: Images) -> None:
        super().__init__()
        if images.labels is None:
            why = why_unlabelled(images.files)
            raise UserError(f"{images.name}: has no labels to train with{why}; choose a self-supervised method")
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.num_features, len(images.classes))
        nn.init.normal_(self.classifier.weight, std=0.01)
        nn.init.zeros_(self.classifier.bias)
        self.register_buffer("labels", images.labels, persistent=False)  # data, not state

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """A crop of each image, and its label."""
        assert draw.rows is not None
        return [augmented_view(images, POLICIES["crop"], draw), self.labels[draw.rows]]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Cross entropy, and the share that was right."""
        view, labels = views
        features = self.encoder(view)  # (N, F)
        logits = to_float32(self.classifier(features))  # (N, classes)
        right = (logits.detach().argmax(1) == labels).float().mean()
        loss = nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "features": features.detach(), "right": right}
