"""What each of the other methods compares with what: its loss recomputed from its parts."""

import pytest
import torch
from small_methods import build, photos, views
from torch import nn

from hardpair import build_encoder
from hardpair.data import Images
from hardpair.train.labelled import Supervised
from hardpair.views import Draw


def test_moco_symmetric_is_both_ways_summed():
    method = build("moco", symmetric=True)
    first, second = views(method)
    both = method([first, second])["loss"]
    method.symmetric = False
    torch.testing.assert_close(both, method([first, second])["loss"] + method([second, first])["loss"])


@pytest.mark.parametrize("group", [0, 4])
def test_cpc_loss_against_a_slow_reference(group):
    direction = build("cpc").directions[1].double()
    grid = torch.randn(8, direction.target.in_channels, 7, 7, dtype=torch.float64)
    context, targets = direction.context(grid), direction.target(grid)
    losses = []
    for below, predict in ((3, direction.predict[0]), (4, direction.predict[1]), (5, direction.predict[2])):
        for start in range(0, 8, group or 8):
            part = range(start, start + (group or 8))
            everything = [targets[b, :, r, c] for b in part for r in range(7) for c in range(7)]
            own = []
            for b in part:
                for r in range(7 - below):
                    for c in range(7):
                        prediction = predict(context[b : b + 1, :, r : r + 1, c : c + 1]).flatten() * 0.1
                        scores = torch.stack(everything) @ prediction
                        own.append(scores.logsumexp(0) - targets[b, :, r + below, c] @ prediction)
            losses.append(torch.stack(own).mean())
    torch.testing.assert_close(direction(grid, group or 8), torch.stack(losses).mean())


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
