import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.data import epoch_order

seeds = st.integers(-(2**63), 2**63)


@settings(deadline=None)
@given(count=st.integers(0, 300), seed=seeds, epoch=st.integers(0, 1000))
def test_is_a_permutation_that_depends_on_seed_and_epoch_alone(count: int, seed: int, epoch: int) -> None:
    order = epoch_order(count, seed=seed, epoch=epoch)
    assert order.dtype == torch.int64
    assert order.sort().values.tolist() == list(range(count))
    torch.rand(3)  # the global generator must not matter
    assert torch.equal(order, epoch_order(count, seed=seed, epoch=epoch))


def test_neighbouring_seeds_and_epochs_differ() -> None:
    orders = {tuple(epoch_order(50, seed=seed, epoch=epoch).tolist()) for seed in range(12) for epoch in range(12)}
    assert len(orders) == 144


def test_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    epoch_order(10, seed=0, epoch=0)
    assert torch.equal(before, torch.get_rng_state())
