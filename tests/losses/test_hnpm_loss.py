"""The loss against a slow reference written from the equations, and at every edge."""

import math
from statistics import fmean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hardpair.losses import dissimilarity, hard_negatives, hnpm_loss, large_batch, normalise
from hardpair.losses.hnpm import SMALLEST_SUM


def reference(
    u: Tensor,
    u_prime: Tensor,
    *,
    alpha_pos: float = 0.8,
    alpha_neg: float = 0.1,
    threshold: float = 1.0,
    norm: str = "inf",
    reduce: str = "sum",
    mine: bool = True,
    nearest: bool = False,
    softness: float = 0.0,
    positive_in_sum: bool = False,
) -> dict[str, float]:
    """Eq. 2-7, or the soft form of Eq. 4, with plain loops over plain numbers."""

    def scaled(row: list[float]) -> list[float]:
        length = max(map(abs, row)) if norm == "inf" else math.sqrt(sum(x * x for x in row))
        return [x / length for x in row] if length else row

    def distance(a: list[float], b: list[float]) -> float:
        squares = [(x - y) ** 2 for x, y in zip(scaled(a), scaled(b), strict=True)]
        return sum(squares) / (len(squares) if reduce == "mean" else 1)

    def mined(i: int, anchor: list[float], candidates: list[list[float]]) -> list[float]:
        distances = [distance(anchor, other) for j, other in enumerate(candidates) if j % len(student) != i]
        near = [d for d in distances if not mine or d <= threshold]
        return [d for d in near if d <= min(near) + 1e-12] if nearest else near  # all, where several are equally near

    def push(distances: list[float], i: int) -> float:
        distances = [*distances, distance(student[i], teacher[i])] if positive_in_sum else distances
        if not distances:
            return 0.0
        if softness:
            return softness * math.log(sum(math.exp(-d / softness) for d in distances))
        return -math.log(max(sum(distances), SMALLEST_SUM))

    teacher, student = u.tolist(), u_prime.tolist()
    positive = fmean(map(distance, student, teacher))
    of_students = [mined(i, anchor, teacher) for i, anchor in enumerate(student)]
    negative = fmean(map(push, of_students, range(len(student))))
    if softness:
        of_teachers = [mined(i, anchor, student + teacher) for i, anchor in enumerate(teacher)]
        negative = (negative + fmean(map(push, of_teachers, range(len(teacher))))) / 2
    count = len(teacher)
    return {
        "loss": alpha_pos * positive + alpha_neg * negative,
        "positive": positive,
        "negative": negative,
        "mined": sum(map(len, of_students)) / max(count * (count - 1), 1),
        "empty": sum(not distances for distances in of_students) / count,
    }


@settings(max_examples=60)
@given(
    count=st.integers(1, 12),
    width=st.integers(1, 9),
    seed=st.integers(0, 10_000),
    norm=st.sampled_from(["inf", "l2"]),
    reduce=st.sampled_from(["sum", "mean"]),
    mine=st.booleans(),
    threshold=st.floats(0.01, 4),
    scale=st.sampled_from([1e-4, 1.0, 1e4]),
    softness=st.sampled_from([0.0, 0.1, 0.4, 3.0]),
    nearest=st.booleans(),
    positive_in_sum=st.booleans(),
)
def test_equals_the_loops(count, width, seed, norm, reduce, mine, threshold, scale, softness, nearest, positive_in_sum):
    torch.manual_seed(seed)
    u, u_prime = scale * torch.randn(2, count, width, dtype=torch.float64)
    choices = {"alpha_pos": 0.7, "alpha_neg": 0.3, "threshold": threshold, "norm": norm, "reduce": reduce, "mine": mine}
    choices |= {"softness": softness, "nearest": nearest, "positive_in_sum": positive_in_sum and softness > 0}
    ours, expected = hnpm_loss(u, u_prime, **choices), reference(u, u_prime, **choices)
    for name, value in expected.items():
        assert ours[name].item() == pytest.approx(value, abs=1e-12 if name not in ("mined", "empty") else 1e-6), name


@pytest.mark.parametrize("norm", ["inf", "l2"])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("mine", [True, False])
@pytest.mark.parametrize("softness", [0.0, 0.3])
@pytest.mark.parametrize("student_learns", [True, False])
def test_gradient(norm, reduce, mine, softness, student_learns):
    torch.manual_seed(3)
    u, u_prime = (torch.randn(6, 5, dtype=torch.float64, requires_grad=learns) for learns in (True, student_learns))
    threshold = float(dissimilarity(u_prime, u, norm=norm, reduce=reduce).detach().median()) + 1e-3

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return hnpm_loss(a, b, threshold=threshold, norm=norm, reduce=reduce, mine=mine, softness=softness)["loss"]

    assert 0 < hnpm_loss(u, u_prime, threshold=threshold, norm=norm, reduce=reduce)["mined"] < 1
    assert torch.autograd.gradcheck(loss, (u, u_prime))


def finite(parts: dict[str, Tensor], *inputs: Tensor) -> None:
    parts["loss"].backward()
    assert all(value.isfinite().all() for value in parts.values())
    assert all(x.grad is not None and x.grad.isfinite().all() for x in inputs)


def outputs(count: int, width: int = 8) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(count, width, requires_grad=True), torch.randn(count, width)


@pytest.mark.parametrize("softness", [0.0, 0.2])
def test_nothing_mined(softness):
    u, u_prime = outputs(6)
    parts = hnpm_loss(u, u_prime, threshold=0.0, softness=softness)
    finite(parts, u)
    assert parts["mined"] == 0
    assert parts["empty"] == 1
    assert parts["negative"] == 0
    assert parts["loss"].item() == pytest.approx(0.8 * parts["positive"].item())


@pytest.mark.parametrize("softness", [0.0, 0.2])
def test_everything_mined_is_no_mining(softness):
    u, u_prime = outputs(6)
    mined = hnpm_loss(u, u_prime, threshold=1e9, softness=softness)
    all_pairs = hnpm_loss(u, u_prime, mine=False, softness=softness)
    assert mined["mined"] == 1
    assert mined["loss"] == all_pairs["loss"]


@pytest.mark.parametrize("softness", [0.0, 0.2])
def test_identical_images(softness):
    u = torch.ones(5, 4, requires_grad=True)
    parts = hnpm_loss(u, torch.ones(5, 4), softness=softness)
    finite(parts, u)
    assert parts["positive"] == 0
    assert parts["mined"] == 1


@pytest.mark.parametrize("softness", [0.0, 0.2])
def test_batch_of_one(softness):
    u, u_prime = outputs(1)
    parts = hnpm_loss(u, u_prime, softness=softness)
    finite(parts, u)
    assert (parts["mined"], parts["empty"]) == (0, 1)


@pytest.mark.parametrize("softness", [0.0, 0.2])
def test_zero_vector_keeps_gradients_of_ordinary_size(softness):
    u, u_prime = outputs(4)
    with torch.no_grad():
        u[1] = 0
        u_prime[2] = 0
    parts = hnpm_loss(u, u_prime, threshold=10, softness=softness)
    finite(parts, u)
    assert u.grad.abs().max() < 100


def test_huge_features_change_nothing():
    u, u_prime = outputs(8)
    plain, huge = hnpm_loss(u, u_prime), hnpm_loss(1e4 * u, 1e4 * u_prime)
    torch.testing.assert_close(plain["loss"], huge["loss"], rtol=1e-4, atol=1e-5)
    finite(huge, u)


def test_half_precision_is_lifted_to_float32():
    u, u_prime = outputs(16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts = hnpm_loss(u.bfloat16(), u_prime.bfloat16())
    assert parts["loss"].dtype == torch.float32
    torch.testing.assert_close(
        parts["loss"], hnpm_loss(u.bfloat16().float(), u_prime.bfloat16().float())["loss"], rtol=0, atol=0
    )


def test_diagonal_is_never_mined():
    distance = torch.zeros(4, 6)
    assert hard_negatives(distance).sum() == 4 * 6 - 4


def test_dissimilarity_is_exact_enough_at_2048_dimensions():
    torch.manual_seed(0)
    a, b = torch.randn(64, 2048), torch.randn(48, 2048)
    exact = dissimilarity(a.double(), b.double())
    torch.testing.assert_close(dissimilarity(a, b).double(), exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize("call", [lambda u: normalise(u, "l1"), lambda u: dissimilarity(u, u, reduce="max")])
def test_unknown_choice_is_refused(call):
    with pytest.raises(ValueError, match="must be"):
        call(torch.ones(2, 2))


@pytest.mark.parametrize("shapes", [((4, 8), (1, 8)), ((4, 8), (4, 7)), ((4,), (4,)), ((4, 8, 1), (4, 8, 1))])
def test_shapes_that_do_not_fit_are_refused(shapes):
    """Broadcasting would make a number of them."""
    with pytest.raises(ValueError, match="must be") as refused:
        hnpm_loss(*(torch.ones(shape) for shape in shapes))
    assert all(str(shape) in str(refused.value) for shape in shapes)


@pytest.mark.parametrize("most", [1, 7, 40, 100])
@pytest.mark.parametrize("softness", [0.0, 0.2])
@pytest.mark.parametrize("student_learns", [True, False])
@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize(("positive", "threshold"), [(False, 1.5), (True, 1.5), (True, 0.01)])
def test_in_parts_is_the_same(monkeypatch, most, softness, student_learns, nearest, positive, threshold):
    """The form for giant batches, some rows at a time: the same loss, shares and gradients as the plain one."""
    generator = torch.Generator().manual_seed(0)
    u, u_prime = (torch.randn(12, 5, dtype=torch.float64, generator=generator) for _ in range(2))

    def result() -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
        a, b = u.clone().requires_grad_(), u_prime.clone().requires_grad_(student_learns)
        chosen = {"nearest": nearest, "positive_in_sum": positive and softness > 0}
        parts = hnpm_loss(a, b, threshold=threshold, norm="l2", softness=softness, **chosen)
        parts["loss"].backward()
        return parts, a.grad, b.grad

    whole = result()
    monkeypatch.setattr(large_batch, "FROM_PAIRS", 0)
    monkeypatch.setattr(large_batch, "TILE_PAIRS", most)
    in_parts = result()
    for name, value in whole[0].items():
        torch.testing.assert_close(in_parts[0][name], value, rtol=1e-13, atol=1e-13)
    for gradient, expected in zip(in_parts[1:], whole[1:], strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-13, atol=1e-13)


def test_the_sum_with_the_positive_pair_is_the_softmax_of_info_nce():
    """With the positive pair in it, and without a threshold: cross entropy of unit vectors, at temperature s / 2."""
    u, u_prime = outputs(7)
    parts = hnpm_loss(u, u_prime, alpha_pos=1, alpha_neg=1, norm="l2", mine=False, softness=0.4, positive_in_sum=True)
    one, other = (torch.nn.functional.normalize(rows, dim=1) for rows in (u, u_prime))
    own = torch.arange(7)
    of_students = torch.nn.functional.cross_entropy(other @ one.T / 0.2, own)
    logits = torch.cat([one @ other.T, (one @ one.T).fill_diagonal_(-torch.inf)], dim=1) / 0.2
    expected = 0.4 * (of_students + torch.nn.functional.cross_entropy(logits, own)) / 2
    torch.testing.assert_close(parts["loss"], expected)


def test_the_positive_pair_is_for_the_soft_sum_only():
    with pytest.raises(ValueError, match="softness"):
        hnpm_loss(*outputs(4), positive_in_sum=True)
