"""Encoders have the published sizes, the asked-for stem, and survive the disk."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from hardpair import build_encoder, load_encoder
from hardpair.errors import UserError
from hardpair.models import build_head, save_encoder
from hardpair.models.encoder import DEPTHS


@pytest.mark.parametrize(
    ("name", "width", "sk", "millions"),
    [
        ("resnet18", 1, False, 11.18),
        ("resnet50", 1, False, 23.51),
        ("resnet50", 2, False, 93.91),
        ("resnet50", 3, False, 211.2),
        ("resnet50", 4, False, 375.4),
        ("resnet101", 1, False, 42.5),
        ("resnet101", 2, False, 169.8),
        pytest.param("resnet152", 1, False, 58.1, marks=pytest.mark.slow),
        pytest.param("resnet152", 2, False, 232.3, marks=pytest.mark.slow),
        pytest.param("resnet152", 3, False, 522.3, marks=pytest.mark.slow),
        pytest.param("resnet200", 1, False, 62.6, marks=pytest.mark.slow),
        pytest.param("resnet200", 2, False, 250.1, marks=pytest.mark.slow),
        ("resnet50", 1, True, 35.2),
        ("resnet50", 2, True, 140.3),
        pytest.param("resnet152", 2, True, 353.4, marks=pytest.mark.slow),
        pytest.param("resnet152", 3, True, 794.7, marks=pytest.mark.slow),
    ],
)
def test_published_parameter_counts(name, width, sk, millions):
    with torch.device("meta"):
        encoder = build_encoder(name, width=width, sk=sk)
    assert sum(p.numel() for p in encoder.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)
    assert encoder.num_features == (512 if name == "resnet18" else 2048) * width


@pytest.mark.parametrize("name", DEPTHS)
@pytest.mark.parametrize("small_images", [True, False])
def test_every_depth_encodes(name, small_images):
    encoder = build_encoder(name, width=1 / 8, small_images=small_images).eval()
    assert encoder(torch.randn(2, 3, 16, 16)).shape == (2, encoder.num_features)
    assert encoder.trunk.conv1.stride == ((1, 1) if small_images else (2, 2))
    assert encoder.trunk.conv1.out_channels == 8


def test_a_quarter_of_a_bottleneck_encodes():
    """Its first block is as wide as timm's stem, which would need no shortcut of its own; ours is narrower."""
    encoder = build_encoder("resnet14", width=1 / 4)
    assert encoder(torch.randn(2, 3, 32, 32)).shape == (2, 512)
    assert encoder.trunk.layer1[0].downsample[0].in_channels == 16


FORMS = ({"name": "resnet10"}, {"name": "resnet14"}, {"name": "resnet14", "sk": True})


def norms_of(encoder):
    return [m for m in encoder.modules() if isinstance(m, torch.nn.BatchNorm2d)]


@pytest.mark.parametrize("form", FORMS)
def test_no_batch_norm_starts_at_zero(form):
    """Else residual branches would add nothing at first; in any kind of block."""
    norms = norms_of(build_encoder(**form, width=1 / 4))
    assert len(norms) > 10
    assert all(bool((norm.weight == 1).all()) for norm in norms)


@pytest.mark.parametrize("form", [*FORMS, {"name": "resnet10", "colour_streams": True}])
def test_zero_init_silences_every_residual_branch_and_changes_nothing_else(form):
    built = []
    for zero_init in (False, True):
        torch.manual_seed(0)
        built.append(build_encoder(**form, width=1 / 4, zero_init=zero_init))
    plain, silent = (encoder.state_dict() for encoder in built)
    zeros = [name for name, value in silent.items() if name.endswith("weight") and not value.any()]
    assert len(zeros) == (8 if "colour_streams" in form else 4)  # one in each block
    assert all(torch.equal(plain[name], silent[name]) for name in plain if name not in zeros)
    trunk, seen = getattr(built[1].trunk, "luminance", built[1].trunk), []
    block = trunk.layer2[0]
    block.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
    built[1].eval()(torch.randn(2, 3, 32, 32))
    (given, output) = seen[0]
    assert torch.equal(output, block.downsample(given).relu())


def test_an_encoder_that_began_at_zero_says_so_and_others_are_written_as_before(tmp_path):
    for zero_init in (False, True):
        encoder = build_encoder("resnet10", width=1 / 8, zero_init=zero_init)
        save_encoder(encoder, tmp_path, step=0)
        written = json.loads((tmp_path / "encoder.json").read_text())
        assert ("zero_init" in written) == zero_init
        assert load_encoder(tmp_path).settings == encoder.settings


@pytest.mark.parametrize(("name", "width", "words"), [("resnet51", 1, "did you mean resnet"), ("resnet50", 9, "width")])
def test_bad_shape_is_one_line(name, width, words):
    with pytest.raises(UserError, match=words) as caught:
        build_encoder(name, width=width)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", [{}, {"colour_streams": True}, {"patch": 8}, {"name": "resnet14", "sk": True}])
def test_saved_encoder_comes_back_whole(tmp_path, caplog, form):
    encoder = build_encoder(**{"name": "resnet10", "width": 1 / 8, "small_images": True, **form})
    encoder(torch.randn(8, 3, 16, 16))  # moves the batch norm statistics
    save_encoder(encoder, tmp_path, step=3)
    with caplog.at_level("INFO"):
        loaded = load_encoder(tmp_path)
    count = len(encoder.state_dict())
    assert f"{count} of {count} tensors matched" in caplog.text
    assert not any(module.training for module in loaded.modules())
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(loaded(x), encoder.eval()(x))
    assert json.loads((tmp_path / "encoder.json").read_text())["step"] == 3


def test_images_smaller_than_a_patch_are_refused():
    encoder = build_encoder("resnet10", width=1 / 8, patch=16)
    encoder.require_sizes({16, 40})
    with pytest.raises(UserError, match=r"^image_size: 15 px are less than a patch of this encoder; give 16"):
        encoder.require_sizes({15, 40})


@pytest.mark.parametrize("damage", ["missing", "extra", "shape", "renamed"])
def test_partial_match_is_refused(tmp_path, damage):
    save_encoder(build_encoder("resnet10", width=1 / 8), tmp_path, step=0)
    file = tmp_path / "encoder.safetensors"
    tensors = load_file(file)
    name = "trunk.layer2.0.conv1.weight"
    if damage == "missing":
        del tensors[name]
    elif damage == "extra":
        tensors["fc.weight"] = torch.zeros(1)
    elif damage == "shape":
        tensors[name] = tensors[name][:1].clone()
    else:
        tensors["module." + name] = tensors.pop(name)
    save_file(tensors, file)
    with pytest.raises(UserError, match=r"\d+ of \d+ tensors match"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("damage", ["absent", "truncated", "not json"])
def test_unreadable_encoder_is_one_line(tmp_path, damage):
    save_encoder(build_encoder("resnet10", width=1 / 8), tmp_path, step=0)
    file = tmp_path / "encoder.safetensors"
    if damage == "absent":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        (tmp_path / "encoder.json").write_text("{")
    with pytest.raises(UserError, match=str(tmp_path)) as caught:
        load_encoder(tmp_path)
    assert "\n" not in str(caught.value)


def test_head_shapes():
    x = torch.randn(4, 6)
    assert torch.equal(build_head(6, hidden=0, outputs=0)(x), x)
    assert build_head(6, hidden=0, outputs=3)(x).shape == (4, 3)
    assert build_head(6, hidden=5, outputs=3)(x).shape == (4, 3)


def test_two_streams_have_half_the_width_each():
    streams = build_encoder("resnet10", width=1 / 2, small_images=True, colour_streams=True)
    half = build_encoder("resnet10", width=1 / 4, small_images=True)
    assert streams.num_features == 2 * half.num_features
    weights = [sum(p.numel() for p in encoder.parameters()) for encoder in (streams, half)]
    assert weights[0] == pytest.approx(2 * weights[1], rel=0.01)  # the stems take 1 and 2 channels instead of 3


def test_patches_are_encoded_one_by_one_and_averaged():
    encoder = build_encoder("resnet10", width=1 / 8, small_images=True, patch=8).eval()
    x = torch.randn(2, 3, 16, 16)
    starts = range(0, 9, 4)
    patches = [encoder.trunk.trunk(x[:, :, top : top + 8, left : left + 8]) for top in starts for left in starts]
    torch.testing.assert_close(encoder(x), torch.stack(patches).mean(0))
    assert encoder.trunk.grid(x).shape == (2, encoder.num_features, 3, 3)
    torch.testing.assert_close(encoder.trunk.grid(x)[:, :, 0, 2], patches[2])
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in encoder.modules())


def selective_reference(block, x):
    """A selective kernel from SimCLRv2's description: one wide convolution, split in two, weighed, summed."""
    kernel = torch.cat([path.conv.weight for path in block.conv2.paths])
    both = torch.nn.functional.conv2d(x, kernel, stride=block.conv2.paths[0].conv.stride, padding=1)
    parts = [path.bn(part).relu() for path, part in zip(block.conv2.paths, both.chunk(2, dim=1), strict=True)]
    pooled = sum(parts).mean((2, 3))
    attn = block.conv2.attn
    squeezed = attn.bn((pooled @ attn.fc_reduce.weight[:, :, 0, 0].T)[:, :, None, None]).relu()[:, :, 0, 0]
    weights = (squeezed @ attn.fc_select.weight[:, :, 0, 0].T).view(len(x), 2, -1).softmax(dim=1)
    return sum(weights[:, k, :, None, None] * parts[k] for k in range(2))


def test_selective_kernels_are_simclrv2s():
    encoder = build_encoder("resnet14", width=1 / 4, sk=True).eval()
    for stage in (encoder.trunk.layer1, encoder.trunk.layer2):
        block = stage[0]
        x = torch.randn(3, block.conv2.in_channels, 8, 8)
        torch.testing.assert_close(block.conv2(x), selective_reference(block, x))
    x = torch.arange(16.0).view(1, 1, 4, 4)
    pooled = encoder.trunk.layer1[0].downsample[0](x)  # stride 1: the last row and column see the border
    assert pooled.shape == x.shape
    assert pooled[0, 0, 0, 0] == (0 + 1 + 4 + 5) / 4
    assert pooled[0, 0, 3, 3] == 15 / 4
    assert encoder.trunk.layer2[0].downsample[0](x).shape == (1, 1, 2, 2)


def test_selective_kernels_need_bottlenecks():
    with pytest.raises(UserError, match=r"^sk: .* resnet18 has none"):
        build_encoder("resnet18", sk=True)
