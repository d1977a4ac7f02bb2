"""What every method must do with encoders of timm: a transformer, and a convolutional one that is no ResNet."""

import pytest
import torch
from small_methods import around, draw, photos

from hardpair import METHODS, build_encoder
from hardpair.errors import UserError

OWN = ("cmc", "cpc")  # these build ResNets of their own
SIZE = 32
JIGSAW = {"test_vit": 64, "test_convnext": 128}  # whose patches have 16 and 32 px


def build(name, encoder):
    torch.manual_seed(0)
    size = JIGSAW[encoder] if name == "infomin" else SIZE
    method = around(build_encoder(encoder, image_size=SIZE), name, size)
    return method, method.views(photos(size=size), draw(0))


@pytest.mark.parametrize("encoder", ["test_vit", "test_convnext"])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in OWN])
def test_a_step(name, encoder):
    method, views = build(name, encoder)
    outputs = method(views)
    assert outputs["loss"].isfinite()
    assert outputs["features"].shape == (32, method.encoder.num_features)
    outputs["loss"].backward()
    for parameter_name, parameter in method.named_parameters():
        reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert reached == parameter.requires_grad, parameter_name
    optimiser = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=0.1)
    optimiser.step()
    method.after_step(0.5)
    again, same = build(name, encoder)
    assert all(torch.equal(a, b) for a, b in zip(views, same, strict=True))
    again.load_state_dict(method.state_dict())
    assert torch.equal(again(same)["loss"], method(views)["loss"])
    assert not torch.equal(again(same)["loss"], outputs["loss"])


@pytest.mark.parametrize("encoder", ["test_vit", "test_convnext"])
@pytest.mark.parametrize("name", OWN)
def test_methods_that_build_their_own_say_so(name, encoder):
    with pytest.raises(UserError, match=f"^encoder: .* cannot use {encoder}; try resnet18$"):
        build(name, encoder)


@pytest.mark.parametrize(("encoder", "side"), [("test_vit", 48), ("test_convnext", 43), ("resnet10", 43)])
def test_small_views_of_whole_patches(encoder, side):
    """Two thirds of 64 px are 43."""
    made = build_encoder(encoder, **({"width": 1 / 8} if encoder == "resnet10" else {"image_size": 64}))
    method = around(made, "hnpm", 64, small_views=2)
    views = method.views(photos(size=64), draw(0))
    assert [view.shape[-1] for view in views] == [64, 64, side, side]
    assert method(views)["loss"].isfinite()


def test_sizes_of_whole_patches():
    encoder = build_encoder("test_vit", image_size=32)
    assert [encoder.nearest_size(pixels) for pixels in (1, 16, 23.9, 24.1, 40.1, 100)] == [16, 16, 16, 32, 48, 96]
    assert build_encoder("resnet10", width=1 / 8).nearest_size(21.3) == 21
