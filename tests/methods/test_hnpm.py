"""HNPM beyond the contract."""

import pytest
import torch
from small_methods import build, draw, one_loss, photos

from hardpair.errors import UserError
from hardpair.methods.hnpm import HNPM

WORKING = {"head_hidden": 32, "head_outputs": 16, "alpha_pos": 1.0, "alpha_neg": 1.0, "threshold": 1.2, "norm": "l2"}


@pytest.mark.parametrize("tau", [0.0, 0.5, 0.999, 1.0])
def test_student_moves_by_tau(tau):
    method = build("hnpm", tau=tau)
    with torch.no_grad():
        for parameter in method.encoder.parameters():
            parameter.add_(0.5)
    before = [p.clone() for p in method.student.parameters()]
    statistics = [b.clone() for b in method.student.buffers()]
    method.after_step(0.1)
    trained = [*method.encoder.parameters(), *method.head.parameters()]
    for old, new, teacher in zip(before, method.student.parameters(), trained, strict=True):
        torch.testing.assert_close(new, tau * old + (1 - tau) * teacher)
    assert all(map(torch.equal, statistics, method.student.buffers()))


def test_student_with_gradient_is_trained_and_not_averaged():
    method = build("hnpm", block_student_gradient=False)
    one_loss(method).backward()
    assert all(p.grad is not None for p in method.student.parameters())
    before = [p.clone() for p in method.student.parameters()]
    with torch.no_grad():
        next(method.encoder.parameters()).add_(1)
    method.after_step(0.1)
    assert all(map(torch.equal, before, method.student.parameters()))


def test_shared_weights_are_one_network():
    """A stopped partner, or with its gradient a trained one: the loss is the same, the gradient is not."""
    stopped, trained = (build("hnpm", **WORKING, share_weights=True, block_student_gradient=b) for b in (True, False))
    assert stopped.student is None
    assert len(list(stopped.parameters())) == len([*stopped.encoder.parameters(), *stopped.head.parameters()])
    losses = [one_loss(method) for method in (stopped, trained)]
    assert torch.equal(*losses)
    gradients = []
    for loss, method in zip(losses, (stopped, trained), strict=True):
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in method.parameters()]))
        method.after_step(0.5)
    assert not torch.allclose(*gradients)
    copy = build("hnpm", **WORKING, tau=0.0)  # before the first step a copy is the same network
    torch.testing.assert_close(one_loss(copy), losses[0])
    assert len(stopped.hard_pairs(stopped.views(photos(), draw(0))).anchor) > 0


def test_the_nearest_of_the_mined_pairs():
    method = build("hnpm", **WORKING, nearest=True)
    views = method.views(photos(), draw(0))
    pairs, every = method.hard_pairs(views), build("hnpm", **WORKING).hard_pairs(views)
    assert len(pairs.anchor.unique()) == len(pairs.anchor) == len(every.anchor.unique()) < len(every.anchor)
    for anchor, distance in zip(pairs.anchor, pairs.distance, strict=True):
        assert distance == every.distance[every.anchor == anchor].min()


def test_settings_reach_the_loss():
    base = one_loss(build("hnpm", **WORKING))
    for name, value in {
        "alpha_pos": 0.5,
        "alpha_neg": 0.5,
        "threshold": 0.3,
        "norm": "inf",
        "reduce": "mean",
        "mine": False,
        "nearest": True,
        "softness": 0.2,
        "small_views": 1,
    }.items():
        assert not torch.equal(one_loss(build("hnpm", **{**WORKING, name: value})), base), name
    for name, value in {"teacher_view": "strong", "student_view": "strong", "head_outputs": 8}.items():
        assert not torch.equal(one_loss(build("hnpm", **{**WORKING, name: value})), base), name


def test_plain_student_sees_the_plain_image():
    method = build("hnpm")
    _, student = method.views(photos(), draw(0))
    assert torch.equal(student, method.views(photos(), draw(9))[1])


def test_views_of_both_branches_are_independent_of_each_other():
    """Made in one call or in two, the views are the same."""
    together = build("hnpm", teacher_view="strong", student_view="strong").views(photos(), draw(0))
    alone = build("hnpm", teacher_view="strong", student_view="plain").views(photos(), draw(0))[0]
    torch.testing.assert_close(together[0], alone, rtol=0, atol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=0.1)


def test_small_views_of_the_teacher_are_views_of_their_own():
    method = build("hnpm", **WORKING, teacher_view="strong", small_views=2, small_size=0.5)
    first, student, *small = method.views(photos(), draw(0))
    assert [view.shape for view in small] == 2 * [(32, 3, first.shape[-1] // 2, first.shape[-1] // 2)]
    assert not torch.allclose(small[0], small[1], atol=0.1)
    parts = [method([view, student])["loss"] for view in (first, *small)]
    torch.testing.assert_close(method([first, student, *small])["loss"], sum(parts) / 3)


def test_hard_pairs_are_the_mined_ones():
    method = build("hnpm", **WORKING)
    views = method.views(photos(), draw(0))
    pairs, outputs = method.hard_pairs(views), method(views)
    assert len(pairs.anchor) / (32 * 31) == pytest.approx(outputs["mined"].item())
    assert (pairs.anchor != pairs.negative).all()
    assert pairs.distance.max() <= 1.2


def test_the_positive_pair_is_in_the_soft_sum_only():
    soft = {**WORKING, "softness": 0.2}
    assert not torch.equal(one_loss(build("hnpm", **soft, positive_in_sum=True)), one_loss(build("hnpm", **soft)))
    with pytest.raises(UserError, match=r"^positive_in_sum: "):
        build("hnpm", **WORKING, positive_in_sum=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", 1.5),
        ("threshold", -1.0),
        ("alpha_neg", -0.1),
        ("head_hidden", -3),
        ("softness", -0.1),
        ("small_size", 2.0),
    ],
)
def test_setting_out_of_range_is_one_line(name, value):
    with pytest.raises(UserError, match=f"^{name}: must be"):
        build("hnpm", **{name: value})


def test_defaults_are_the_papers():
    method = build("hnpm")
    assert isinstance(method, HNPM)
    assert (method.alpha_pos, method.alpha_neg, method.threshold, method.tau) == (0.8, 0.1, 1.0, 0.5)
    assert (method.norm, method.reduce, method.mine, method.block_student_gradient) == ("inf", "sum", True, True)
    assert isinstance(method.head, torch.nn.Identity)
