"""The other systems' losses against double loops written from their formulas."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hardpair.losses import cosine_regression, find_own, info_nce, nt_xent

TEMPERATURES = st.sampled_from([0.07, 0.2, 0.5, 1.0])


def rows(count: int, seed: int, width: int = 7) -> Tensor:
    return torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


@settings(max_examples=25)
@given(count=st.integers(2, 9), seed=st.integers(0, 10**6), temperature=TEMPERATURES)
def test_nt_xent(count, seed, temperature):
    a, b = rows(count, seed), rows(count, seed + 1)
    every = [*a, *b]
    total = 0.0
    for i, view in enumerate(every):
        partner = every[(i + count) % (2 * count)]
        others = sum(math.exp(cosine(view, other) / temperature) for k, other in enumerate(every) if k != i)
        total -= math.log(math.exp(cosine(view, partner) / temperature) / others)
    assert nt_xent(a, b, temperature=temperature).item() == pytest.approx(total / (2 * count), rel=1e-12)


@settings(max_examples=25)
@given(count=st.integers(1, 9), seed=st.integers(0, 10**6), temperature=TEMPERATURES)
def test_info_nce(count, seed, temperature):
    queries, keys = rows(count, seed), rows(count, seed + 1)
    negatives = torch.nn.functional.normalize(rows(5, seed + 2), dim=1)
    total = 0.0
    for query, key in zip(queries, keys, strict=True):
        own = math.exp(cosine(query, key) / temperature)
        total -= math.log(own / (own + sum(math.exp(cosine(query, n) / temperature) for n in negatives)))
    assert info_nce(queries, keys, negatives, temperature=temperature).item() == pytest.approx(total / count, rel=1e-12)


@settings(max_examples=25)
@given(count=st.integers(1, 9), seed=st.integers(0, 10**6), temperature=TEMPERATURES, some=st.booleans())
def test_find_own(count, seed, temperature, some):
    bank = torch.nn.functional.normalize(rows(12, seed), dim=1)
    queries, own = rows(count, seed + 1), torch.randint(12, (count,), generator=torch.Generator().manual_seed(seed))
    sampled = torch.tensor([3, 1, 4]) if some else torch.tensor([], dtype=torch.long)
    total = 0.0
    for query, row in zip(queries, own.tolist(), strict=True):
        others = [row, *sampled.tolist()] if some else range(12)
        whole = sum(math.exp(cosine(query, bank[k]) / temperature) for k in others)
        total -= math.log(math.exp(cosine(query, bank[row]) / temperature) / whole)
    result = find_own(queries, bank, own, sampled, temperature=temperature).item()
    assert result == pytest.approx(total / count, rel=1e-12)


@settings(max_examples=25)
@given(count=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_cosine_regression(count, seed):
    predicted, target = rows(count, seed), rows(count, seed + 1)
    total = sum(((p / p.norm() - z / z.norm()) ** 2).sum().item() for p, z in zip(predicted, target, strict=True))
    assert cosine_regression(predicted, target).item() == pytest.approx(total / count, rel=1e-12)


def test_no_gradient_into_the_target():
    predicted, target = rows(4, 0).requires_grad_(), rows(4, 1).requires_grad_()
    cosine_regression(predicted, target).backward()
    assert predicted.grad is not None
    assert target.grad is None


@pytest.mark.parametrize(
    "loss", [nt_xent, lambda a, b, temperature: info_nce(a, b, b.flip(0), temperature=temperature)]
)
def test_gradients(loss):
    a, b = rows(4, 0, 3).requires_grad_(), rows(4, 1, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: loss(a, b, temperature=0.5), (a, b))
