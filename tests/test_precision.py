"""Arithmetic: what is in bfloat16, what never is, and switches that go back to where they were."""

import pytest
import torch

from hardpair import build_encoder, precision
from hardpair.errors import UserError
from hardpair.precision import allow_tf32, autocast, fastest, full_precision, has_bfloat16, in_full_precision
from hardpair.train import parallel

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _tf32_as_before():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
def test_full_precision_is_for_the_block_alone(before):
    torch.set_float32_matmul_precision(before)
    with torch.autocast("cpu", torch.bfloat16):
        with full_precision(CPU):
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_float32_matmul_precision() == before


def test_full_precision_ends_with_an_error_too():
    allow_tf32()

    @in_full_precision
    def loss(a):
        assert torch.get_float32_matmul_precision() == "highest"
        raise ZeroDivisionError

    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(ZeroDivisionError):
            loss(torch.zeros(1))
        assert torch.is_autocast_enabled("cpu")
    assert torch.get_float32_matmul_precision() == "high"


def test_full_precision_takes_any_device():
    for device in (torch.device("meta"), torch.device("cuda", 0)):
        with full_precision(device):
            pass


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_networks_compute_in_it_and_keep_their_weights(name):
    network = torch.nn.Linear(4, 4)
    with autocast(name, CPU):
        assert network(torch.randn(2, 4)).dtype == getattr(torch, name)
    assert network.weight.dtype == torch.float32
    with autocast(name, torch.device("meta")):
        assert torch.empty(2, 4, device="meta").matmul(torch.empty(4, 2, device="meta")).dtype == torch.float32


def test_an_unchosen_precision_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="chosen"):
        autocast("auto", CPU)


@pytest.mark.parametrize("form", [{}, {"colour_streams": True}, {"patch": 8}, {"name": "test_vit", "image_size": 32}])
def test_features_are_float32_and_nearly_the_same(form):
    torch.manual_seed(0)
    resnet = {} if "name" in form else {"name": "resnet10", "width": 1 / 8, "small_images": True}
    encoder, inside = build_encoder(**resnet, **form).eval(), []
    layer = next(module for module in encoder.modules() if isinstance(module, torch.nn.Conv2d))
    layer.register_forward_hook(lambda _module, _inputs, output: inside.append(output.dtype))
    images = torch.randn(4, 3, 32, 32)
    plain = encoder(images)
    encoder.precision = "bfloat16"
    for rounded in (encoder(images), _under_autocast(encoder, images)):
        assert rounded.dtype == torch.float32
        assert not torch.equal(rounded, plain)
        assert (rounded - plain).norm() < 0.05 * plain.norm()
    assert inside[0] == torch.float32
    assert set(inside[1:]) == {torch.bfloat16}


def _under_autocast(encoder, images):
    encoder.precision = "float32"  # what a method's encoder is set to; training sets the rest
    with autocast("bfloat16", CPU):
        return encoder(images)


def test_what_the_hardware_has_decides(monkeypatch):
    for flag in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda flag=flag: flag)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda flag=flag, **_: flag)
        for device in (CPU, torch.device("cuda", 0)):
            assert has_bfloat16(device) is flag
            assert fastest(device) == ("bfloat16" if flag else "float32")
    assert not has_bfloat16(torch.device("meta"))


def test_gpus_may_use_tf32_and_only_they_are_told(monkeypatch):
    told = []
    monkeypatch.setattr(parallel, "allow_tf32", lambda: told.append(1))
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    parallel.pick_device("cpu")
    assert told == []
    if torch.cuda.is_available():
        parallel.pick_device("cuda")
    else:
        with pytest.raises(UserError, match=r"^device: 'cuda'"):
            parallel.pick_device("cuda")
    assert told == [1]


def test_tf32_is_for_networks_and_not_for_losses():
    allow_tf32()
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cuda.matmul.allow_tf32
    with full_precision(CPU):
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "high"


def test_wider_types_stay():
    """Only what autocast made is widened: gradients are checked in double precision."""
    double = torch.zeros(2, dtype=torch.float64)
    assert precision.to_float32(double) is double
    assert precision.to_float32(double.bfloat16()).dtype == torch.float32
