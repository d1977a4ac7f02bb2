"""docs/method.md: the loss is stationary in a common scale at E[d_ii] = alpha_neg / alpha_pos."""

import pytest
import torch


@pytest.mark.parametrize(("alpha_pos", "alpha_neg"), [(0.8, 0.1), (1.0, 1.0), (0.5, 1.0)])
def test_the_ratio_of_alphas_sets_the_distance_of_positives(alpha_pos, alpha_neg):
    torch.manual_seed(0)
    u, u_prime = torch.randn(2, 32, 8, dtype=torch.float64)
    squared = torch.cdist(u_prime, u).square()  # distances before any common factor
    others = ~torch.eye(32, dtype=torch.bool)
    log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([log_scale], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        distance = log_scale.exp() * squared
        value = alpha_pos * distance.diagonal().mean() - alpha_neg * (distance * others).sum(1).log().mean()
        value.backward()
        return value

    optimiser.step(loss)
    settled = (log_scale.exp() * squared).diagonal().mean().item()
    assert settled == pytest.approx(alpha_neg / alpha_pos, rel=1e-4)
