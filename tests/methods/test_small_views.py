"""Small views of every two-view method, against the rule written out; and shuffled batch norm of both that have it."""

import pytest
import torch
from small_methods import build, draw, photos, size_for, views
from torch.nn.functional import cosine_similarity, normalize

from hardpair.errors import UserError
from hardpair.losses import info_nce, nt_xent

TWO_VIEWS = ("simclr", "simclrv2", "byol", "simsiam", "moco")


def outputs_of(method, small, network=None):
    """What a network, or the encoder and the head, makes of each view by itself, in eval mode."""
    network = network or (lambda view: method.head(method.encoder(view)))
    return [network(view) for view in small]


def simclr(method, shown):
    first, second, *small = outputs_of(method, shown)
    pairs = [(first, second)] + [(large, view) for view in small for large in (first, second)]
    return sum(nt_xent(a, b, temperature=method.temperature) for a, b in pairs) / len(pairs)


def byol(method, shown):
    predictions = outputs_of(method, shown, lambda view: method.predictor(method.projector(method.encoder(view))))
    targets = outputs_of(method, shown[:2], method.target)
    total = 0
    for place, target in enumerate(targets):
        ways = [2 - 2 * cosine_similarity(p, target).mean() for k, p in enumerate(predictions) if k != place]
        total += sum(ways) / len(ways)
    return total


def simsiam(method, shown):
    outputs = outputs_of(method, shown, lambda view: method.projector(method.encoder(view)))
    total = 0
    for place in range(2):
        ways = [
            -cosine_similarity(method.predictor(o), outputs[place]).mean() for k, o in enumerate(outputs) if k != place
        ]
        total += sum(ways) / len(ways)
    return 1 + total / 2


def moco(method, shown):
    queries = outputs_of(method, shown)
    keys = [normalize(method.averaged(view), dim=1) for view in shown[:2]]

    def to_key(place):
        ways = [
            info_nce(q, keys[place], method.queue.keys, temperature=method.temperature)
            for k, q in enumerate(queries)
            if k != place
        ]
        return sum(ways) / len(ways)

    return to_key(1) + to_key(0) if method.symmetric else to_key(1)


REFERENCES = {"simclr": simclr, "simclrv2": simclr, "byol": byol, "simsiam": simsiam, "moco": moco}


@pytest.mark.parametrize("name", TWO_VIEWS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_loss_is_the_mean_over_the_views_that_are_compared_with_a_large_one(name, count):
    method = build(name, small_views=count).eval()
    shown = views(method)
    torch.testing.assert_close(method(shown)["loss"], REFERENCES[name](method, shown))


def test_symmetric_queries_of_small_views_have_both_keys():
    method = build("moco", small_views=2, symmetric=True).eval()
    shown = views(method)
    torch.testing.assert_close(method(shown)["loss"], moco(method, shown))


@pytest.mark.parametrize("name", [*TWO_VIEWS, "hnpm"])
def test_small_views_are_small_and_views_of_their_own(name):
    side = size_for(name)
    shown = build(name, small_views=2, small_size=0.5).views(photos(size=side), draw(0))
    assert [view.shape[-1] for view in shown] == [side, side, side // 2, side // 2]
    assert not torch.allclose(shown[2], shown[3], atol=0.1)
    plain = build(name).views(photos(size=side), draw(0))
    assert all(map(torch.equal, plain, shown[:2]))


@pytest.mark.parametrize("name", [*TWO_VIEWS, "hnpm"])
def test_gradient_of_small_views_reaches_the_encoder(name):
    method = build(name, small_views=1)
    shown = [view.requires_grad_() for view in views(method)]
    method(shown)["loss"].backward()
    assert shown[2].grad is not None
    assert shown[2].grad.abs().sum() > 0


@pytest.mark.parametrize("name", [*TWO_VIEWS, "hnpm"])
@pytest.mark.parametrize(("setting", "value"), [("small_views", -1), ("small_size", 0.0)])
def test_setting_out_of_range_is_one_line(name, setting, value):
    with pytest.raises(UserError, match=f"^{setting}: must be"):
        build(name, **{setting: value})


@pytest.mark.parametrize("settings", [{"small_views": 1}, {"small_views": 1, "symmetric": True}])
def test_splits_and_small_views_go_together(settings):
    method = build("moco", splits=4, **settings).eval()
    *shown, shuffle = views(method)
    assert sorted(shuffle.tolist()) == list(range(32))
    torch.testing.assert_close(method([*shown, shuffle])["loss"], moco(method, shown))


@pytest.mark.parametrize("jigsaw", [0.0, 0.5])
def test_infomin_keys_do_not_depend_on_the_shuffle_but_for_batch_norm(jigsaw):
    method = build("infomin", splits=4, jigsaw=jigsaw).eval()
    first, second, shuffle, *patches = views(method)
    straight = [first, second, torch.arange(32), *patches]
    whole = build("infomin", jigsaw=jigsaw).eval()
    torch.testing.assert_close(method(straight)["loss"], whole([first, second, *patches])["loss"])
    torch.testing.assert_close(method([first, second, shuffle, *patches])["loss"], method(straight)["loss"])
    method.train()
    assert method([first, second, shuffle, *patches])["loss"] != method(straight)["loss"]
    assert not method.whole_batch_norm
