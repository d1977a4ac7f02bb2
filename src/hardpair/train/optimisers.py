"""Optimisers and learning rates."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from timm.optim.lars import Lars
from torch import nn

from hardpair.recipes import Recipe

MOMENTUM = 0.9
PAPER_T_MAX = 100  # "the maximum number of iterations": CosineAnnealingLR's T_max, stepped once an epoch
DROPS = (0.6, 0.8)  # shares of the run at which the schedule "steps" divides the learning rate by ten


class Wanted(Protocol):
    """What a recipe and a tuning both say of their optimiser."""

    @property
    def optimiser(self) -> str:
        """Its name."""

    @property
    def learning_rate(self) -> float:
        """At its highest."""

    @property
    def weight_decay(self) -> float:
        """Of the weights."""

    @property
    def decay_norms(self) -> bool:
        """And of biases and norms."""


def build_optimiser(
    module: nn.Module,
    wanted: Wanted,
    constant_rate: Iterable[nn.Parameter] = (),
    *,
    nesterov: bool = False,
    like_biases: Iterable[nn.Parameter] = (),
) -> torch.optim.Optimizer:
    """The wanted optimiser over the parameters that take a gradient.

    Biases and norms, and what is to be treated like them, take weight decay only with `decay_norms`. Under LARS they
    never do and their steps are not adapted, as published; a recipe that asks for it is refused.
    """
    constant, plain = set(constant_rate), {*like_biases, *_spared(module)}
    of_plain = wanted.weight_decay if wanted.decay_norms and wanted.optimiser != "lars" else 0.0
    trained = [p for p in module.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = []

    def is_plain(p: nn.Parameter) -> bool:
        return p.ndim <= 1 or p in plain

    for fixed in (False, True) if constant else (False,):
        some = [p for p in trained if (p in constant) == fixed]
        groups += [
            {"params": [p for p in some if not is_plain(p)], "weight_decay": wanted.weight_decay, "fixed": fixed},
            {"params": [p for p in some if is_plain(p)], "weight_decay": of_plain, "fixed": fixed},
        ]
    if wanted.optimiser == "adam":
        return torch.optim.Adam(groups, lr=wanted.learning_rate, fused=True)
    if wanted.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)
    if wanted.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=wanted.learning_rate, momentum=MOMENTUM, nesterov=nesterov, fused=True)
    # timm's LARS adapts only groups with weight decay unless told to; weights always adapt, biases and norms never.
    for weights in groups[::2]:
        weights["always_adapt"] = True
    optimiser: torch.optim.Optimizer = Lars(groups, lr=wanted.learning_rate, momentum=MOMENTUM, trust_coeff=0.001)
    return optimiser


def _spared(module: nn.Module) -> Iterator[nn.Parameter]:
    """Position embeddings, class tokens and the like, which timm's models name: published without weight decay."""
    for part in module.modules():
        named: Any = getattr(part, "no_weight_decay", None)
        spared = named() if callable(named) else ()
        yield from (parameter for name, parameter in part.named_parameters() if name in spared)


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step, counted from 0."""
    warmup = round(recipe.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / (recipe.epochs * steps_per_epoch - warmup)
    if recipe.schedule == "steps":
        return recipe.learning_rate * 0.1 ** sum(progress >= drop for drop in DROPS)
    if recipe.schedule == "paper":
        progress = (step // steps_per_epoch) / PAPER_T_MAX
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def set_learning_rate(optimiser: torch.optim.Optimizer, value: float) -> None:
    """Give this learning rate to every group whose rate is not fixed."""
    for group in optimiser.param_groups:
        if not group["fixed"]:
            group["lr"] = value
