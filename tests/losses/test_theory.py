"""The paper's theory (Eq. 8-14) in numbers: what holds, and what does not (docs/explanation/method.md)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.losses import dissimilarity, hnpm_loss

ONE = torch.float64


def info_nce(d: torch.Tensor) -> torch.Tensor:
    """Eq. 8 with f = 1 / DisSim, worked out: E[log d_ii + log Σ_j 1/d_ij]; distances (N, N), pairs on the diagonal."""
    return (d.diagonal().log() + (1 / d).sum(1).log()).mean()


def as_printed(d: torch.Tensor) -> torch.Tensor:
    """Eq. 9 as the paper has it: E[log d_ii − log Σ_j d_ij]."""
    return (d.diagonal().log() - d.sum(1).log()).mean()


def distances(positive: float, negatives: list[float]) -> torch.Tensor:
    """One anchor's row, as a matrix whose other rows are alike (each with its own image on the diagonal)."""
    size = len(negatives) + 1
    d = torch.empty(size, size, dtype=ONE)
    for row in range(size):
        d[row] = torch.tensor([*negatives[:row], positive, *negatives[row:]], dtype=ONE)
    return d


def test_eq_8_is_the_softmax_it_claims_to_be():
    torch.manual_seed(0)
    d = torch.rand(6, 6, dtype=ONE) + 0.1
    slow = 0.0
    for i in range(6):
        slow -= math.log((1 / d[i, i].item()) / sum(1 / d[i, j].item() for j in range(6))) / 6
    assert info_nce(d).item() == pytest.approx(slow)


@pytest.mark.parametrize("common", [0.2, 1.0, 3.0])
def test_eq_9_is_eq_8_up_to_a_constant_where_all_distances_are_equal(common):
    d = torch.full((8, 8), common, dtype=ONE, requires_grad=True)
    assert (info_nce(d) - as_printed(d)).item() == pytest.approx(2 * math.log(8))
    one, two = (torch.autograd.grad(loss(d), d)[0] for loss in (info_nce, as_printed))
    torch.testing.assert_close(one, two)


def test_elsewhere_minimising_eq_9_is_not_minimising_eq_8():
    """One far and one near negative, or two at middling distance: each loss prefers another."""
    uneven, even = distances(0.5, [4.0, 0.2]), distances(0.5, [1.5, 1.5])
    assert as_printed(uneven) < as_printed(even)  # the far one makes the sum large
    assert info_nce(uneven) > info_nce(even)  # the near one makes the sum of reciprocals large


def test_eq_8_pushes_the_nearest_and_eq_9_pushes_all_alike():
    d = distances(0.5, [0.2, 1.0, 4.0]).requires_grad_()
    push, push_as_printed = (-torch.autograd.grad(loss(d), d)[0][0, 1:] for loss in (info_nce, as_printed))
    assert (push[:-1] / push[1:]).min() > 10  # falls with the square of the distance
    torch.testing.assert_close(push_as_printed, push_as_printed[:1].expand(3))


def test_the_negative_term_of_eq_9_is_ours_without_mining():
    """The second part of Eq. 9 equals Eq. 4, but for the pair itself, which Eq. 4 leaves out of its sum."""
    torch.manual_seed(0)
    u, u_prime = torch.randn(2, 7, 5, dtype=ONE)
    d = dissimilarity(u_prime, u)
    own = d.diagonal()
    ours = hnpm_loss(u, u_prime, mine=False)["negative"]
    torch.testing.assert_close(ours, -(d.sum(1) - own).log().mean())


def test_the_mean_of_logs_and_the_log_of_means_order_differently():
    """Eq. 9 has log d_ii where the loss has d_ii; "equivalent" holds for one image and not for an average of images."""
    spread, even = torch.tensor([0.001, 1.0], dtype=ONE), torch.tensor([0.3, 0.3], dtype=ONE)
    assert spread.log().mean() < even.log().mean()
    assert spread.mean() > even.mean()


@settings(max_examples=50)
@given(seed=st.integers(0, 9999), count=st.integers(2, 12), spread=st.floats(1e-4, 2))
def test_eq_12_bounds_the_negative_term_from_below(seed, count, spread):
    """Every mined distance is at most 1, so an anchor's term is at least −log of how many it can mine."""
    draw = torch.Generator().manual_seed(seed)
    centre = torch.randn(1, 6, generator=draw, dtype=ONE)
    u, u_prime = (centre + spread * torch.randn(count, 6, generator=draw, dtype=ONE) for _ in range(2))
    negative = hnpm_loss(u, u_prime, threshold=1.0)["negative"].item()
    assert -math.log(count - 1) - 1e-9 <= negative <= -math.log(1e-6) + 1e-9  # the upper one is our own floor


def test_nothing_bounds_it_from_above_but_our_floor():
    """M of Eq. 12 does not exist: as two images come together the term grows without end."""
    u = torch.tensor([[1.0, 0.5], [1.0, 0.5]], dtype=ONE)
    values = []
    for gap in (1e-1, 1e-2, 1e-3, 1e-6):
        apart = u + torch.tensor([[0.0, 0.0], [0.0, gap]], dtype=ONE)
        values.append(hnpm_loss(apart, u, threshold=1.0)["negative"].item())
    assert values[0] < values[1] < values[2] < values[3]
    assert values[3] == pytest.approx(-math.log(1e-6))


def test_eq_14_holds_on_average_and_not_for_every_draw():
    """Knowing Z lowers the mean of the variance; for one value of Z the variance may well be higher."""
    calm, wild = torch.full((9,), 0.5, dtype=ONE), torch.tensor([0.0, 4.0], dtype=ONE)  # U' for Z = 0 and for Z = 1
    both = torch.cat([calm, wild])
    within = (len(calm) * calm.var(correction=0) + len(wild) * wild.var(correction=0)) / len(both)
    assert within <= both.var(correction=0)
    assert wild.var(correction=0) > both.var(correction=0)


def test_there_is_an_equilibrium_the_argument_cannot_leave():
    """Where all outputs are equal Var(U'|U) is 0 already: no Z lowers it, and the positive term has no slope."""
    u = torch.full((5, 4), 0.7, dtype=ONE, requires_grad=True)
    loss = hnpm_loss(u, u.detach(), alpha_neg=0.0)["loss"]
    assert loss.item() == 0
    assert torch.autograd.grad(loss, u)[0].abs().max() == 0
