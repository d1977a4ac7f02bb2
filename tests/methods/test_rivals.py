"""The other methods beyond the contract: what moves, what is remembered, what is refused."""

import math

import pytest
import torch
from small_methods import build, draw, one_loss, photos, views
from torch import nn

from hardpair.errors import UserError
from hardpair.methods.infomin import shuffled_patches
from hardpair.recipes import find_recipe
from hardpair.train.optimisers import build_optimiser, set_learning_rate
from hardpair.views import POLICIES, augmented_view


def moved_by(averaged: nn.Module, trained: list[nn.Module], after_step, keep: float) -> None:
    """Shift what is trained, let the average follow, and check every parameter against the rule."""
    source = [p for module in trained for p in module.parameters()]
    with torch.no_grad():
        for parameter in source:
            parameter.add_(0.5)
    before = [p.clone() for p in averaged.parameters()]
    after_step()
    for old, new, now in zip(before, averaged.parameters(), source, strict=True):
        torch.testing.assert_close(new, keep * old + (1 - keep) * now)


@pytest.mark.parametrize("progress", [0.1, 0.5, 1.0])
def test_byol_target_slows_down_along_a_cosine(progress):
    method = build("byol", momentum=0.9)
    keep = 1 - 0.1 * (math.cos(math.pi * progress) + 1) / 2
    moved_by(method.target, [method.encoder, method.projector], lambda: method.after_step(progress), keep)


@pytest.mark.parametrize("name", ["moco", "infomin"])
def test_key_encoder_follows_at_a_constant_pace(name):
    method = build(name, momentum=0.9)
    moved_by(method.averaged, [method.encoder, method.head], lambda: method.after_step(0.7), 0.9)


def test_moco_queue_takes_the_keys_of_the_step():
    method = build("moco", queue=48)
    one_loss(method)
    keys = method.fresh[0].clone()
    method.after_step(0.1)
    assert torch.equal(method.queue.keys[:32], keys)
    one_loss(method, 1)
    keys = method.fresh[0].clone()
    method.after_step(0.2)
    assert torch.equal(method.queue.keys[torch.arange(32, 64) % 48], keys)
    assert int(method.queue.place) == 16


def test_moco_keys_do_not_depend_on_the_shuffle_but_for_batch_norm():
    method = build("moco", splits=4).eval()
    first, second, shuffle = views(method)
    torch.testing.assert_close(
        method([first, second, shuffle])["loss"], method([first, second, torch.arange(32)])["loss"]
    )
    method.train()
    assert method([first, second, shuffle])["loss"] != method([first, second, torch.arange(32)])["loss"]


def test_simsiam_predictor_keeps_its_learning_rate():
    method, recipe = build("simsiam"), find_recipe("cifar10/simsiam")
    optimiser = build_optimiser(method, recipe, method.constant_rate())
    set_learning_rate(optimiser, 1e-5)
    predictor = set(method.predictor.parameters())
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            assert group["lr"] == (recipe.learning_rate if parameter in predictor else 1e-5)
    assert sum(len(group["params"]) for group in optimiser.param_groups) == len(list(method.parameters()))


@pytest.mark.parametrize("negatives", [0, 10])
def test_instdisc_bank_moves_towards_what_was_seen(negatives):
    method = build("instdisc", negatives=negatives)
    before = method.bank.vectors.clone()
    one_loss(method)
    rows, outputs = method.fresh
    expected = 0.5 * before[rows] + 0.5 * nn.functional.normalize(outputs, dim=1)
    method.after_step(0.1)
    torch.testing.assert_close(method.bank.vectors[rows], nn.functional.normalize(expected, dim=1))


def test_cmc_streams_see_brightness_and_colour():
    method = build("cmc")
    grey = torch.full((2, 3, 16, 16), 0.5)
    normalised = (grey - torch.tensor([0.485, 0.456, 0.406])[:, None, None]) / torch.tensor([0.229, 0.224, 0.225])[
        :, None, None
    ]
    trunk = method.encoder.trunk
    space = nn.functional.conv2d(normalised, trunk.matrix, trunk.offset)
    torch.testing.assert_close(space[:, 0], torch.full((2, 16, 16), (0.5 - 0.457) / 0.5))
    torch.testing.assert_close(space[:, 1], torch.full((2, 16, 16), 0.082 / 1.331))
    torch.testing.assert_close(space[:, 2], torch.full((2, 16, 16), 0.052 / 1.333))
    assert method.encoder(normalised).shape == (2, method.encoder.num_features)


def test_cmc_refuses_grey_images():
    with pytest.raises(UserError, match=r"^method: cmc .* grey"):
        build("cmc").prepare(photos()[:, :1].expand(-1, 3, -1, -1))


def test_cpc_refuses_images_with_too_few_patches():
    with pytest.raises(UserError, match=r"^image_size: cpc cuts 16 px into 3 x 3 patches of 8 px and needs 6 x 6"):
        build("cpc", patch=8)


def test_cpc_context_never_sees_what_it_predicts():
    """Changing a row changes no context above it, so none of the predictions made from there."""
    direction = build("cpc").directions[0]
    grid = torch.randn(2, direction.target.in_channels, 7, 7)
    changed = grid.clone()
    changed[:, :, 4:] += 1
    before, after = direction.context(grid), direction.context(changed)
    assert torch.equal(before[:, :, :4], after[:, :, :4])
    assert not torch.equal(before[:, :, 4], after[:, :, 4])


def test_jigsaw_patches_are_pieces_of_their_cells_in_random_order():
    view = torch.arange(32 * 32).view(1, 1, 32, 32).expand(4, 3, -1, -1).float()
    patches = shuffled_patches(view, draw(0, 4).uniforms("patches", 27))
    assert patches.shape == (4, 9, 3, 8, 8)
    orders = set()
    for image in patches[:, :, 0]:
        cells = []
        for patch in image:
            row, column = divmod(int(patch[0, 0]), 32)
            torch.testing.assert_close(patch, view[0, 0, row : row + 8, column : column + 8])
            cells.append((row // 10, column // 10))
            assert row % 10 <= 2
            assert column % 10 <= 2
        assert sorted(cells) == [(r, c) for r in range(3) for c in range(3)]
        orders.add(tuple(cells))
    assert len(orders) == 4


def test_jigsaw_patches_may_be_cut_from_a_smaller_view():
    """64 px from 256 where images are 320, say; here 8 of 32 where they are 40."""
    method, images, drawn = build("infomin"), photos(3, size=40), draw(0, 3)
    method.jigsaw_size = 0.8
    method.prepare(images)
    patches = method.views(images, drawn)[2]
    view = augmented_view(images, POLICIES["jigsaw"], drawn.at(32).within("jigsaw"))
    assert torch.equal(patches, shuffled_patches(view, drawn.uniforms("patches", 27)))
    with pytest.raises(UserError, match=r"jigsaw of 26 px"):
        method.prepare(photos(3, size=32))


def test_infomin_without_jigsaw_takes_small_images():
    with pytest.raises(UserError, match=r"^image_size: infomin's jigsaw"):
        build("infomin").prepare(photos(size=16))
    build("infomin", jigsaw=0.0).prepare(photos(size=16))


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [("simclr", "temperature", 0.0), ("moco", "queue", 0), ("byol", "momentum", 1.5), ("cpc", "patch", 1)],
)
def test_setting_out_of_range_is_one_line(name, setting, value):
    with pytest.raises(UserError, match=f"^{setting}: must be"):
        build(name, **{setting: value})
