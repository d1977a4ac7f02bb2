"""docs/explanation/method.md: where the loss lets positive pairs settle."""

from statistics import fmean

import pytest
import torch

from hardpair.losses import hnpm_loss


@pytest.mark.parametrize(("alpha_pos", "alpha_neg"), [(0.8, 0.1), (1.0, 0.25), (1.0, 0.5)])
def test_the_ratio_of_alphas_sets_the_distance_of_positives(alpha_pos, alpha_neg):
    """Draw outputs towards a common point by a factor s: the loss is lowest where positives are at the ratio.

    (Near that point normalising changes little, so that all distances shrink by s squared.)
    """
    torch.manual_seed(0)
    centre = torch.ones(64, dtype=torch.float64)
    u, u_prime = torch.randn(2, 32, 64, dtype=torch.float64)
    log_s = torch.tensor(-3.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([log_s], max_iter=200, line_search_fn="strong_wolfe")

    def parts() -> dict[str, torch.Tensor]:
        near = [centre + log_s.exp() * outputs for outputs in (u, u_prime)]
        return hnpm_loss(*near, alpha_pos=alpha_pos, alpha_neg=alpha_neg, norm="l2", mine=False)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = parts()["loss"]
        value.backward()
        return value

    optimiser.step(loss)
    assert parts()["positive"].item() == pytest.approx(alpha_neg / alpha_pos, rel=0.05)


@pytest.mark.parametrize("threshold", [0.5, 0.9, 9.0])
def test_soft_positives_settle_at_the_distance_of_the_nearest_negatives(threshold):
    """As all distances grow by a common factor, the soft loss changes by alpha_pos times the mean distance of positives
    minus alpha_neg times that of mined negatives, which count by exp(-d / s) among those of their anchor.

    (Outputs whose largest entry is always 1: the infinity norm leaves them alone.)
    """
    torch.manual_seed(0)
    count, s, alpha_pos, alpha_neg = 12, 0.2, 1.0, 0.7
    ones, rest = torch.ones(2, count, 1, dtype=torch.float64), torch.rand(2, count, 8, dtype=torch.float64) / 1.1
    log_factor = torch.zeros((), dtype=torch.float64, requires_grad=True)
    teacher, student = torch.cat([ones, (log_factor / 2).exp() * rest], dim=2)
    parts = hnpm_loss(teacher, student, alpha_pos=alpha_pos, alpha_neg=alpha_neg, threshold=threshold, softness=s)
    parts["loss"].backward()

    def weighed(anchor: int, distances: torch.Tensor) -> float:
        """Over blocks (K, N) of candidates, one of each image."""
        mined = (distances <= threshold) & (torch.arange(count) != anchor)
        weights = torch.where(mined, (-distances / s).exp(), 0)
        return ((weights * distances).sum() / weights.sum()).item() if mined.any() else 0.0

    across, among = torch.cdist(student, teacher).square().detach(), torch.cdist(teacher, teacher).square().detach()
    of_students = [weighed(i, across[i : i + 1]) for i in range(count)]
    of_teachers = [weighed(i, torch.stack([across[:, i], among[i]])) for i in range(count)]
    expected = alpha_pos * across.diagonal().mean().item() - alpha_neg * (fmean(of_students) + fmean(of_teachers)) / 2
    assert log_factor.grad.item() == pytest.approx(expected, abs=1e-12)
    assert 0 < parts["mined"] <= 1
