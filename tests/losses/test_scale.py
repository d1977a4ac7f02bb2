"""docs/method.md: without mining, positives settle at the distance alpha_neg / alpha_pos."""

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
