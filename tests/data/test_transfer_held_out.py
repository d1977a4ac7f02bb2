"""The balanced part that becomes a validation split."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.data.transfer.held_out import hold_out_number

sizes_of_classes = st.lists(st.integers(8, 30), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(sizes=sizes_of_classes, share=st.floats(0, 0.2), seed=st.integers(0, 9), shuffle=st.randoms())
def test_exactly_so_many_and_equally_many_of_each_class(sizes: list[int], share: float, seed: int, shuffle) -> None:
    values = [2 * label for label, size in enumerate(sizes) for _ in range(size)]  # labels need not be dense
    shuffle.shuffle(values)
    labels, total = torch.tensor(values), int(share * len(values))
    kept, held = hold_out_number(labels, total=total, seed=seed)
    assert len(held) == total
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    assert held.tolist() == sorted(held.tolist())
    counts = labels[held].bincount(minlength=2 * len(sizes))[::2].tolist()
    assert max(counts) - min(counts) <= 1
    assert all(sizes[a] >= sizes[b] for a in range(len(sizes)) for b in range(len(sizes)) if counts[a] > counts[b]), (
        "the larger classes give more"
    )


def test_is_determined_by_the_seed() -> None:
    labels = torch.arange(10).repeat(20)
    first, again, other = (hold_out_number(labels, total=40, seed=seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_cars_holds_out_what_the_protocol_says() -> None:
    sizes = torch.full((196,), 41)
    sizes[: 8_144 - 196 * 41] += 1  # 8,144 training images, as in the real set
    labels = torch.arange(196).repeat_interleave(sizes)
    kept, held = hold_out_number(labels, total=1_650, seed=0)
    assert (len(kept), len(held)) == (6_494, 1_650)
    assert labels[held].bincount().bincount().tolist() == [0] * 8 + [114, 82]
