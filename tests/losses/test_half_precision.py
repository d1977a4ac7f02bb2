"""A loss of outputs in bfloat16 is that of the same numbers in float32: only networks are rounded."""

import pytest
import torch
from torch.nn.functional import normalize

from hardpair.losses import cosine_regression, dissimilarity, find_own, hnpm_loss, info_nce, large_batch, nt_xent
from hardpair.methods.cpc import Direction

BANK = normalize(torch.randn(9, 5, generator=torch.Generator().manual_seed(3)), dim=1)
OWN = torch.arange(6)
LOSSES = {
    "nt_xent": lambda a, b: nt_xent(a, b, temperature=0.1),
    "info_nce": lambda a, b: info_nce(a, b, BANK, temperature=0.1),
    "find_own, of all": lambda a, _: find_own(a, BANK, OWN, OWN[:0], temperature=0.1),
    "find_own, of some": lambda a, _: find_own(a, BANK, OWN, torch.tensor([7, 8]), temperature=0.1),
    "cosine_regression": cosine_regression,
    "dissimilarity": lambda a, b: dissimilarity(a, b, norm="l2"),
    "hnpm": lambda a, b: hnpm_loss(a, b)["loss"],
    "hnpm, l2": lambda a, b: hnpm_loss(a, b, norm="l2", threshold=1.5, reduce="mean")["loss"],
    "hnpm, soft": lambda a, b: hnpm_loss(a, b, norm="l2", threshold=1.5, softness=0.2)["loss"],
    "cpc": lambda a, b: Direction._loss(a.view(6, 5, 1, 1), b.view(6, 5, 1, 1), 0, 0),
}


def rows(seed):
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(seed)).bfloat16()


@pytest.mark.parametrize("in_tiles", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_same_to_the_bit(name, in_tiles, monkeypatch):
    if in_tiles:
        monkeypatch.setattr(large_batch, "FROM_PAIRS", 0)
    loss, found = LOSSES[name], []
    for half in (True, False):
        a, b = (rows(seed) if half else rows(seed).float() for seed in (0, 1))
        a.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            value = loss(a, b)
        value.sum().backward()
        assert value.dtype == torch.float32
        found.append((value.detach(), a.grad.float()))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(
        found[0][1], found[1][1], rtol=1e-2, atol=1e-4
    )  # the gradient of a is rounded to its type
