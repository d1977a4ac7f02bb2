"""Moving average, queue and bank."""

import torch
from torch.nn.functional import normalize

from hardpair.models import Bank, Queue, average_into, averaged_copy


def test_average_moves_by_the_rule():
    torch.manual_seed(0)
    trained = torch.nn.Linear(4, 3)
    averaged = averaged_copy(trained)
    with torch.no_grad():
        trained.weight.add_(1)
    before = averaged.weight.clone()
    average_into(averaged, trained, keep=0.9)
    torch.testing.assert_close(averaged.weight, 0.9 * before + 0.1 * trained.weight)
    assert not averaged.weight.requires_grad


def test_queue_drops_the_oldest_first():
    queue = Queue(5, 2)
    for start in (0, 3, 6):
        queue.push(torch.arange(start, start + 3)[:, None].expand(-1, 2).float())
    assert sorted(queue.keys[:, 0].tolist()) == [4, 5, 6, 7, 8]


def test_more_rows_than_places_keeps_the_last():
    queue = Queue(4, 1)
    queue.push(torch.arange(10.0)[:, None])
    assert sorted(queue.keys[:, 0].tolist()) == [6, 7, 8, 9]


def test_memories_begin_with_unit_vectors_and_are_saved():
    for memory in (Queue(6, 8), Bank(6, 8)):
        (vectors,) = (v for v in memory.state_dict().values() if v.ndim == 2)
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(6))


def test_bank_keeps_its_share_and_unit_length():
    bank = Bank(4, 3)
    before, outputs = bank.vectors.clone(), torch.randn(2, 3) * 9
    bank.update(torch.tensor([2, 0]), outputs, keep=0.25)
    expected = normalize(0.25 * before[[2, 0]] + 0.75 * normalize(outputs, dim=1), dim=1)
    torch.testing.assert_close(bank.vectors[[2, 0]], expected)
    assert torch.equal(bank.vectors[[1, 3]], before[[1, 3]])
