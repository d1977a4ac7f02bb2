import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.data import hold_out
from hardpair.errors import UserError

some_labels = st.lists(st.integers(0, 5), max_size=120).map(lambda values: torch.tensor(values, dtype=torch.int64))
shares = st.floats(0.01, 0.99)


@settings(deadline=None)
@given(labels=some_labels, share=shares, seed=st.integers(0, 99))
def test_split_is_whole_sorted_and_balanced(labels: torch.Tensor, share: float, seed: int) -> None:
    kept, held = hold_out(labels, share=share, seed=seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    assert kept.tolist() == sorted(kept.tolist())
    assert held.tolist() == sorted(held.tolist())
    for label in set(labels.tolist()):
        count, count_held = int((labels == label).sum()), int((labels[held] == label).sum())
        assert count_held < count, "every class keeps one"
        assert abs(count_held - share * count) <= 1
        assert count_held >= 1 or count == 1


def test_is_determined_by_the_seed() -> None:
    labels = torch.arange(10).repeat(20)
    first, again, other = (hold_out(labels, share=0.2, seed=seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 40


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_refuses_a_share_that_is_none(share: float) -> None:
    with pytest.raises(UserError, match="share"):
        hold_out(torch.tensor([0, 1]), share=share, seed=0)
