"""The other methods beyond the contract: what moves, what is remembered, what is refused."""

import math

import pytest
import torch
from small_methods import build, draw, one_loss, photos, views
from torch import nn

from hardpair import build_encoder
from hardpair.data import Images
from hardpair.errors import UserError
from hardpair.methods.infomin import shuffled_patches
from hardpair.recipes import find_recipe
from hardpair.train.labelled import Supervised
from hardpair.train.optimisers import build_optimiser, set_learning_rate
from hardpair.views import Draw


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


def test_moco_symmetric_is_both_ways_summed():
    method = build("moco", symmetric=True)
    first, second, shuffle = views(method)
    both = method([first, second, shuffle])["loss"]
    method.symmetric = False
    torch.testing.assert_close(
        both, sum(method([a, b, shuffle])["loss"] for a, b in ((first, second), (second, first)))
    )


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


@pytest.mark.parametrize("group", [0, 8])
def test_cpc_loss_against_a_slow_reference(group):
    direction = build("cpc").directions[1].double()
    grid = torch.randn(16, direction.target.in_channels, 7, 7, dtype=torch.float64)
    context, targets = direction.context(grid), direction.target(grid)
    losses = []
    for below, predict in ((3, direction.predict[0]), (4, direction.predict[1]), (5, direction.predict[2])):
        for start in range(0, 16, group or 16):
            part = range(start, start + (group or 16))
            everything = [targets[b, :, r, c] for b in part for r in range(7) for c in range(7)]
            own = []
            for b in part:
                for r in range(7 - below):
                    for c in range(7):
                        prediction = predict(context[b : b + 1, :, r : r + 1, c : c + 1]).flatten() * 0.1
                        scores = torch.stack(everything) @ prediction
                        own.append(scores.logsumexp(0) - targets[b, :, r + below, c] @ prediction)
            losses.append(torch.stack(own).mean())
    torch.testing.assert_close(direction(grid, group or 16), torch.stack(losses).mean())


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


def cosines(a, b):
    return nn.functional.cosine_similarity(a, b)


def test_byol_predicts_the_target_of_the_other_view():
    method = build("byol").eval()
    first, second = views(method)
    p1, p2 = (method.predictor(method.projector(method.encoder(view))) for view in (first, second))
    t1, t2 = method.target(first), method.target(second)
    expected = (2 - 2 * cosines(p1, t2)).mean() + (2 - 2 * cosines(p2, t1)).mean()
    torch.testing.assert_close(method([first, second])["loss"], expected)
    assert not torch.isclose(expected, (4 - 2 * cosines(p1, t1) - 2 * cosines(p2, t2)).mean())


def test_simsiam_predicts_the_output_of_the_other_view():
    method = build("simsiam")
    first, second = views(method)
    z1, z2 = (method.projector(method.encoder(view)) for view in (first, second))
    p1, p2 = method.predictor(z1), method.predictor(z2)
    expected = 1 - 0.5 * (cosines(p1, z2) + cosines(p2, z1)).mean()
    torch.testing.assert_close(method([first, second])["loss"], expected)
    assert not torch.isclose(expected, 1 - 0.5 * (cosines(p1, z1) + cosines(p2, z2)).mean())


@pytest.mark.parametrize("name", ["simclr", "simclrv2"])
def test_simclr_pairs_the_two_views_of_an_image(name):
    method = build(name)
    given = views(method)
    outputs = nn.functional.normalize(method.head(method.encoder(torch.cat(given))), dim=1)
    similarity = (outputs @ outputs.T / method.temperature).fill_diagonal_(-torch.inf)
    partner = similarity[torch.arange(64), (torch.arange(64) + 32) % 64]
    torch.testing.assert_close(method(given)["loss"], (similarity.logsumexp(1) - partner).mean())


@pytest.mark.parametrize("negatives", [0, 10])
def test_cmc_compares_each_stream_with_the_others_bank(negatives):
    method = build("cmc", negatives=negatives)
    view, rows, sampled = views(method)
    luminance, colour = method.encoder.trunk.streams(view)
    u, v = (nn.functional.normalize(x, dim=1) for x in (method.luminance_head(luminance), method.colour_head(colour)))
    expected = 0.0
    for outputs, bank in ((u, method.colour_bank.vectors), (v, method.luminance_bank.vectors)):
        own = (outputs * bank[rows]).sum(1, keepdim=True)
        others = torch.cat([own, outputs @ bank[sampled].T], dim=1) if negatives else outputs @ bank.T
        expected = expected + ((others / 0.07).logsumexp(1) - own[:, 0] / 0.07).mean()
    torch.testing.assert_close(method([view, rows, sampled])["loss"], expected)
    banks = method.luminance_bank.vectors.clone(), method.colour_bank.vectors.clone()
    method.after_step(0.1)
    for bank, old, outputs in zip((method.luminance_bank, method.colour_bank), banks, (u, v), strict=True):
        moved = nn.functional.normalize(0.5 * old[rows] + 0.5 * outputs, dim=1)
        torch.testing.assert_close(bank.vectors[rows], moved)


def test_infomin_weighs_the_view_and_its_patches():
    method = build("infomin", jigsaw=0.25)
    given = views(method)
    keys = nn.functional.normalize(method.averaged(given[1]), dim=1)
    queries = method.head(method.encoder(given[0])), method._join_patches(given[2])
    parts = []
    for query in queries:
        unit = nn.functional.normalize(query, dim=1)
        scores = torch.cat([(unit * keys).sum(1, keepdim=True), unit @ method.queue.keys.T], dim=1) / 0.15
        parts.append((scores.logsumexp(1) - scores[:, 0]).mean())
    torch.testing.assert_close(method(given)["loss"], 0.75 * parts[0] + 0.25 * parts[1])


def test_supervised_learns_from_the_labels_of_its_rows():
    images = Images(photos(), torch.arange(32) % 4, tuple("abcd"), "photos")
    torch.manual_seed(0)
    method = Supervised(build_encoder("resnet10", width=1 / 8, small_images=True), images)
    view, labels = method.views(photos()[5:9], Draw(0, 0, torch.arange(4), rows=torch.arange(5, 9)))
    assert labels.tolist() == [1, 2, 3, 0]
    logits = method.classifier(method.encoder(view))
    expected = (logits.logsumexp(1) - logits[torch.arange(4), labels]).mean()
    torch.testing.assert_close(method([view, labels])["loss"], expected)
