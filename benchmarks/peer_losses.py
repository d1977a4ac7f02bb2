"""Our losses and LARS beside lightly's: do they compute the same?

    python benchmarks/peer_losses.py            (needs the extra: pip install "hardpair[bench]")

Losses run on random inputs of several sizes, temperatures and seeds, in both precisions; whole methods run on random
images in float64, our encoder and heads below lightly's loss. A difference of losses is absolute; one of gradients,
or of weights after LARS, is relative to the largest entry. Exits with 1 if any is above 1e-5.

Where lightly writes a loss differently, the known relation is applied: ours is 2 + 2 x its negative cosine for BYOL
(and twice that for both ways round, where lightly takes the mean), and 1 + it for SimSiam. lightly's memory bank
expects negatives of length one and drops what does not fit before its end; ours normalises and wraps around. They
are the same when the batch divides the queue, which is what runs here.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from lightly.loss import NegativeCosineSimilarity, NTXentLoss
from lightly.utils.lars import LARS
from torch import Tensor
from torch.nn.functional import normalize

from hardpair import METHODS, build_encoder
from hardpair.losses import cosine_regression, info_nce, nt_xent
from hardpair.models import Queue
from hardpair.recipes import find_recipe
from hardpair.train.optimisers import build_optimiser

LIMIT = 1e-5
SIZES = ((8, 16), (64, 32), (160, 128))  # rows, width
TEMPERATURES = (0.07, 0.2, 0.5, 1.0)
SEEDS = range(5)
PRECISIONS = (torch.float64, torch.float32)
QUEUE = 1024

Loss = Callable[..., Any]  # a tensor of one number
negative_cosine = NegativeCosineSimilarity()


@dataclass(frozen=True)
class Case:
    """One comparison: two ways to a loss from the same inputs, which gradients are taken of."""

    name: str
    inputs: Sequence[Tensor]
    ours: Loss
    lightly: Loss


def bank_loss(negatives: Tensor, temperature: float) -> NTXentLoss:
    """lightly's NT-Xent with these rows (K, D) in its memory bank."""
    loss = NTXentLoss(temperature=temperature, memory_bank_size=tuple(negatives.shape)).to(negatives.dtype)
    loss.memory_bank.bank.copy_(negatives)
    return loss


def loss_cases(dtype: torch.dtype) -> Iterator[Case]:
    """Every loss at every size, temperature and seed."""
    for (rows, width), seed in product(SIZES, SEEDS):
        draw = torch.Generator().manual_seed(seed)
        a, b = (torch.randn(rows, width, generator=draw, dtype=dtype) for _ in range(2))
        b = a + b  # views of one image are alike
        negatives = normalize(torch.randn(QUEUE, width, generator=draw, dtype=dtype), dim=1)
        for t in TEMPERATURES:
            yield Case("SimCLR, NT-Xent", [a, b], lambda x, y, t=t: nt_xent(x, y, temperature=t), NTXentLoss(t))
            yield Case(
                "MoCo, InfoNCE",
                [a, b],
                lambda x, y, t=t, negatives=negatives: info_nce(x, y, normalize(negatives, dim=1), temperature=t),
                bank_loss(negatives, t),
            )
        yield Case("BYOL, one way", [a, b], cosine_regression, lambda x, y: 2 + 2 * negative_cosine(x, y.detach()))


def queue_cases(dtype: torch.dtype) -> Iterator[Case]:
    """Loss after loss while the queues fill and come round again."""
    for seed, t in product(SEEDS, TEMPERATURES):
        draw, rows, width = torch.Generator().manual_seed(seed), 128, 32
        queue = Queue(QUEUE, width).to(dtype)
        lightly = bank_loss(normalize(queue.keys, dim=1), t)
        for _ in range(20):  # 2,560 keys
            a, b = (torch.randn(rows, width, generator=draw, dtype=dtype) for _ in range(2))
            old = queue.keys.clone()
            yield Case(
                "MoCo, with its queue", [a, b], lambda x, y, t=t, k=old: info_nce(x, y, k, temperature=t), lightly
            )
            queue.push(normalize(b, dim=1))


def method_cases() -> Iterator[Case]:
    """Whole methods: the loss they report, and lightly's on top of the same encoder and heads."""
    both_ways: dict[str, Any] = {"symmetric": True}
    kinds = (("simclr", {}), ("moco", {}), ("moco", both_ways), ("byol", {}), ("simsiam", {}))
    for (name, other), seed in product(kinds, SEEDS):
        torch.manual_seed(seed)
        encoder = build_encoder("resnet10", width=0.25, small_images=True)
        method = METHODS[name](encoder, **{**find_recipe(f"demo/{name}").settings, **other}).double()
        views = [torch.randn(16, 3, 16, 16, dtype=torch.float64) for _ in range(2)]
        given = [*views, torch.randperm(16)] if name == "moco" else views
        yield Case(
            f"{name}{' both ways' if other else ''}, whole method",
            [p for p in method.parameters() if p.requires_grad],
            lambda *_, method=method, given=given: method(given)["loss"],
            lambda *_, method=method, given=given, name=name: METHOD_LOSSES[name](method, *given),
        )


def simclr(method: Any, first: Tensor, second: Tensor) -> Any:
    """Ours sends both views through together; batch norm sees them so."""
    outputs = method.head(method.encoder(torch.cat([first, second])))
    return NTXentLoss(method.temperature)(*outputs.chunk(2))


def moco(method: Any, first: Tensor, second: Tensor, shuffle: Tensor) -> Any:
    """One way round, or both, summed. The shuffle changes no key here, where batch norm sees the whole batch."""
    del shuffle
    ways = [(first, second), (second, first)] if method.symmetric else [(first, second)]
    with torch.no_grad():
        keys = [method.averaged(key) for _, key in ways]
    return sum(  # a new bank each time, since it takes the keys in
        bank_loss(normalize(method.queue.keys, dim=1), method.temperature)(method.head(method.encoder(query)), key)
        for (query, _), key in zip(ways, keys, strict=True)
    )


def byol(method: Any, first: Tensor, second: Tensor) -> Any:
    """Both ways round, summed."""
    p1, p2 = (method.predictor(method.projector(method.encoder(view))) for view in (first, second))
    with torch.no_grad():
        t1, t2 = method.target(first), method.target(second)
    return 4 + 2 * (negative_cosine(p1, t2) + negative_cosine(p2, t1))


def simsiam(method: Any, first: Tensor, second: Tensor) -> Any:
    """Both ways round, the mean."""
    z1, z2 = (method.projector(method.encoder(view)) for view in (first, second))
    p1, p2 = method.predictor(z1), method.predictor(z2)
    return 1 + (negative_cosine(p1, z2.detach()) + negative_cosine(p2, z1.detach())) / 2


METHOD_LOSSES: dict[str, Loss] = {"simclr": simclr, "moco": moco, "byol": byol, "simsiam": simsiam}


def loss_and_gradient(loss: Loss, inputs: Sequence[Tensor]) -> tuple[float, Tensor]:
    """The loss, and all gradients in one row; where none flows it is 0."""
    leaves = [x.detach().clone().requires_grad_() if not x.requires_grad else x for x in inputs]
    value = loss(*leaves)
    gradients = torch.autograd.grad(value, leaves, allow_unused=True)
    filled = [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]
    return value.item(), torch.cat([g.flatten() for g in filled])


def relative(a: Tensor, b: Tensor) -> float:
    """Largest difference, as a share of the largest entry; infinite where that is no number, lest it pass for 0."""
    difference = ((a - b).abs().max() / b.abs().max()).item()
    return difference if math.isfinite(difference) else math.inf


def compare(cases: Iterator[Case]) -> dict[str, tuple[int, float, float]]:
    """Name → number of cases, largest difference of losses, largest difference of gradients."""
    found: dict[str, tuple[int, float, float]] = {}
    for case in cases:
        ours, our_gradient = loss_and_gradient(case.ours, case.inputs)
        lightly, gradient = loss_and_gradient(case.lightly, case.inputs)
        apart = abs(ours - lightly) if math.isfinite(ours) and math.isfinite(lightly) else math.inf
        count, loss, slope = found.get(case.name, (0, 0.0, 0.0))
        found[case.name] = count + 1, max(loss, apart), max(slope, relative(our_gradient, gradient))
    return found


def lars_difference(weight_decay: float, dtype: torch.dtype) -> float:
    """Weights after 20 steps of random gradients, ours (timm's, as the trainer sets it up) and lightly's."""
    torch.manual_seed(0)
    ours = build_encoder("resnet10", width=0.25, small_images=True).to(dtype)
    lightly = build_encoder("resnet10", width=0.25, small_images=True).to(dtype)
    lightly.load_state_dict(ours.state_dict())
    recipe = replace(find_recipe("demo/simclr"), optimiser="lars", learning_rate=0.3, weight_decay=weight_decay)
    weights, others = ([p for p in lightly.parameters() if (p.ndim > 1) == many] for many in (True, False))
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimisers = build_optimiser(ours, recipe), LARS(groups, lr=0.3, momentum=0.9, trust_coefficient=0.001)
    for _ in range(20):
        for a, b in zip(ours.parameters(), lightly.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimiser in optimisers:
            optimiser.step()
    return max(relative(a.detach(), b.detach()) for a, b in zip(ours.parameters(), lightly.parameters(), strict=True))


def main() -> int:
    """Print one line per loss and precision; 1 if any differs."""
    torch.set_num_threads(1)  # small work; threads would only wait for each other
    worst = 0.0
    print(f"{'':30}{'':10}{'cases':>6}{'loss':>11}{'gradient':>11}   largest difference to lightly's")
    for dtype in PRECISIONS:
        groups = [loss_cases(dtype), queue_cases(dtype)] + ([method_cases()] if dtype == torch.float64 else [])
        for name, (count, loss, slope) in (row for group in groups for row in compare(group).items()):
            print(f"{name:30}{str(dtype)[6:]:10}{count:6}{loss:11.1e}{slope:11.1e}", flush=True)
            worst = max(worst, loss, slope)
        weights = lars_difference(1e-4, dtype)
        print(f"{'LARS, weights, 20 steps':30}{str(dtype)[6:]:10}{1:6}{weights:11.1e}", flush=True)
        worst = max(worst, weights)
    print(
        f"without weight decay lightly's LARS is plain SGD and ours still adapts: {lars_difference(0, dtype):.1e} apart"
    )
    print(f"largest of all {worst:.1e}: {'agrees' if worst <= LIMIT else 'DIFFERS'} (limit {LIMIT:.0e})")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
