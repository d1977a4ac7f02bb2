"""Training of either side from equal encoders, and one evaluation for all."""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_pil_image

from hardpair.data import Images
from hardpair.evaluate import knn, linear
from hardpair.evaluate.features import outputs
from hardpair.models import Encoder, build_encoder, load_encoder
from hardpair.recipes import Recipe
from hardpair.train.trainer import Trainer
from peer.lightly_side import LIGHTLY, TRANSFORMS, learning_rate

CPU = torch.device("cpu")
WORKERS = 2


def train_ours(recipe: Recipe, images: Images) -> tuple[Encoder, float]:
    """Our trainer, recipe as it is. The encoder and the seconds of training."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(recipe, Path(folder), images, CPU, checkpoint_every=sys.maxsize)
        began = time.perf_counter()
        outcome = trainer.run()
        seconds = time.perf_counter() - began
        if outcome.status == "stopped":
            raise KeyboardInterrupt
        return load_encoder(folder), seconds


class Pictures(Dataset[list[Tensor]]):
    """Views of images, made one by one by a transform of lightly's, on PIL images as it expects them."""

    def __init__(self, images: Images, transform: Callable[..., Any]) -> None:
        self.pixels, self.transform = images.pixels, transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> list[Tensor]:
        views: list[Tensor] = self.transform(to_pil_image(self.pixels[row]))
        return views


class Lightly:
    """The recipe's method by lightly, with the recipe's encoder, batch, epochs and seed.

    lightly's own pipelines have tensors in torch's usual layout; channels last is faster here.
    """

    def __init__(self, recipe: Recipe, images: Images, optimiser: str, *, channels_last: bool) -> None:
        torch.manual_seed(recipe.seed)  # the same initial weights as ours
        self.recipe = recipe
        self.encoder = build_encoder(recipe.encoder, width=recipe.width, small_images=recipe.small_images)
        self.method = LIGHTLY[recipe.method](self.encoder).train()
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.method.to(memory_format=self.layout)
        pictures = Pictures(images, TRANSFORMS[recipe.method]())
        self.loader: DataLoader[list[Tensor]] = DataLoader(
            pictures, recipe.batch_size, shuffle=True, drop_last=True, num_workers=WORKERS, persistent_workers=True
        )
        trained = [p for p in self.method.parameters() if p.requires_grad]
        steps = recipe.epochs * len(self.loader)
        choice = _sgd(trained, recipe) if optimiser == "sgd" else _adam(trained, recipe, steps)
        self.rule, self.by_step, self.by_epoch = choice
        self.clip = recipe.clip if optimiser == "adam" else 0

    def epoch(self) -> Iterator[Tensor]:
        """The losses of an epoch's steps, each step done when its loss is asked for."""
        for views in self.loader:
            laid_out = [view.contiguous(memory_format=self.layout) for view in views]
            yield _step(self.method, laid_out, self.rule, self.by_step, self.clip)
        if self.by_epoch is not None:
            self.by_epoch.step()


def train_lightly(recipe: Recipe, images: Images, optimiser: str) -> tuple[Encoder, float]:
    """From beginning to end. The encoder and the seconds of training."""
    lightly = Lightly(recipe, images, optimiser, channels_last=False)
    began = time.perf_counter()
    for epoch in range(recipe.epochs):
        _report(epoch, recipe.epochs, list(lightly.epoch()), time.perf_counter() - began)
    return lightly.encoder.eval(), time.perf_counter() - began


def _sgd(trained: list[nn.Parameter], recipe: Recipe) -> tuple[torch.optim.Optimizer, LRScheduler | None, LRScheduler]:
    """As in lightly's benchmark: weight decay for all, a cosine by epoch."""
    rate = learning_rate(recipe.method, recipe.batch_size)
    sgd = torch.optim.SGD(trained, lr=rate, momentum=0.9, weight_decay=5e-4)
    return sgd, None, CosineAnnealingLR(sgd, recipe.epochs)


def _adam(
    trained: list[nn.Parameter], recipe: Recipe, steps: int
) -> tuple[torch.optim.Optimizer, LRScheduler, LRScheduler | None]:
    """As in our recipe: no weight decay, a cosine by step; the gradient is clipped too."""
    adam = torch.optim.Adam(trained, lr=recipe.learning_rate)
    return adam, LambdaLR(adam, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))), None


def _step(
    method: nn.Module, views: list[Tensor], rule: torch.optim.Optimizer, by_step: LRScheduler | None, clip: float
) -> Tensor:
    loss: Tensor = method(*views)
    rule.zero_grad(set_to_none=True)
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(rule.param_groups[0]["params"], clip)
    rule.step()
    if by_step is not None:
        by_step.step()
    return loss.detach()


def _report(epoch: int, epochs: int, losses: list[Tensor], seconds: float) -> None:
    loss = torch.stack(losses).mean().item()
    if not math.isfinite(loss):
        raise SystemExit(f"lightly's loss is not finite in epoch {epoch + 1}")
    print(f"  epoch {epoch + 1}/{epochs}  loss {loss:.4f}  {seconds:.0f} s", flush=True)


def evaluate(encoder: Encoder, train: Images, test: Images) -> dict[str, float]:
    """Top-1 of knn and linear, fitted on the training images and tested on the test images."""
    assert train.labels is not None
    assert test.labels is not None
    fitted, tested = (outputs(encoder.eval(), images, CPU) for images in (train, test))
    sets = (fitted, train.labels), (tested, test.labels)
    return {"knn": knn(*sets)["top1"], "linear": linear(*sets)["top1"]}
