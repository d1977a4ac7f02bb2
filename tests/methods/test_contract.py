"""What every method must do, run over all of METHODS."""

import copy

import pytest
import torch
from torch import Tensor

from hardpair import METHODS, build_encoder
from hardpair.errors import UserError
from hardpair.methods import HNPM, Method
from hardpair.views import Draw

WORKING = {"head_hidden": 32, "head_outputs": 16, "alpha_pos": 1.0, "alpha_neg": 1.0, "threshold": 1.2, "norm": "l2"}


def build(name: str, **settings: object) -> Method:
    torch.manual_seed(0)
    return METHODS[name](build_encoder("resnet10", width=1 / 8, small_images=True), **settings)


def photos(count: int = 32) -> Tensor:
    """Smooth coloured blobs: different images that augmentation does not destroy."""
    torch.manual_seed(1)
    small = torch.rand(count, 3, 4, 4)
    return (torch.nn.functional.interpolate(small, size=16, mode="bilinear") * 255).to(torch.uint8)


def draw(step: int, count: int = 32) -> Draw:
    return Draw(0, step, torch.arange(count))


def one_loss(method: Method, step: int = 0) -> Tensor:
    return method(method.views(photos(), draw(step)))["loss"]


@pytest.mark.parametrize("name", METHODS)
class TestContract:
    def test_loss_is_finite_and_outputs_are_named(self, name):
        method = build(name)
        outputs = method(method.views(photos(), draw(0)))
        assert outputs["loss"].ndim == 0
        assert outputs["loss"].isfinite()
        assert outputs["features"].shape == (32, method.encoder.num_features)
        assert not outputs["features"].requires_grad

    def test_gradient_reaches_what_is_trained_and_nothing_else(self, name):
        method = build(name)
        with torch.no_grad():  # residual branches start at zero, which would hide what does not reach them
            for module in method.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.weight.fill_(1.0)
        one_loss(method).backward()
        for parameter_name, parameter in method.named_parameters():
            reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert reached == parameter.requires_grad, parameter_name

    def test_same_seed_same_loss(self, name):
        assert torch.equal(one_loss(build(name)), one_loss(build(name)))
        assert not torch.equal(one_loss(build(name), 0), one_loss(build(name), 1))

    def test_state_round_trip(self, name):
        method, other = build(name), build(name)
        one_loss(method).backward()
        torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=0.1).step()
        method.after_step(0.5)
        other.load_state_dict(copy.deepcopy(method.state_dict()))
        assert torch.equal(one_loss(method, 1), one_loss(other, 1))

    def test_loss_falls_on_32_images(self, name):
        method = build(name)
        optimiser = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], lr=2e-3)
        losses = []
        for step in range(40):
            loss = one_loss(method, step)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            method.after_step((step + 1) / 40)
            losses.append(loss.item())
        assert sum(losses[-5:]) < sum(losses[:5])


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


def test_settings_reach_the_loss():
    base = one_loss(build("hnpm", **WORKING))
    for name, value in {
        "alpha_pos": 0.5,
        "alpha_neg": 0.5,
        "threshold": 0.3,
        "norm": "inf",
        "reduce": "mean",
        "mine": False,
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


def test_hard_pairs_are_the_mined_ones():
    method = build("hnpm", **WORKING)
    views = method.views(photos(), draw(0))
    pairs, outputs = method.hard_pairs(views), method(views)
    assert len(pairs.anchor) / (32 * 31) == pytest.approx(outputs["mined"].item())
    assert (pairs.anchor != pairs.negative).all()
    assert pairs.distance.max() <= 1.2


@pytest.mark.parametrize(
    ("name", "value"), [("tau", 1.5), ("threshold", -1.0), ("alpha_neg", -0.1), ("head_hidden", -3)]
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
