"""Linear evaluation on augmented images."""

import torch
from judging import CPU, judge

from hardpair import build_encoder
from hardpair.data import open_images
from hardpair.evaluate import Settings
from hardpair.evaluate.probe import Probes, Probing, _train


def test_rates_trained_side_by_side_are_as_if_trained_alone(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path).select(torch.arange(100))
    torch.manual_seed(0)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True).eval()
    probing = Probing(batch_size=25, epochs=3)
    rows = torch.arange(0, 100, 2)
    both = _train(encoder, images.select(rows), probing, (0.4, 0.1), seed=0, device=CPU)
    alone = _train(encoder, images.select(rows), probing, (0.1,), seed=0, device=CPU)
    torch.testing.assert_close(both.linear.weight.unflatten(0, (2, 10))[1], alone.linear.weight)
    assert isinstance(both, Probes)
    assert all(map(torch.equal, both.encoder.state_dict().values(), encoder.state_dict().values()))


def test_the_probe_scores_and_names_its_rate(run):
    probing = Probing(rates=(0.0, 0.4), batch_size=250, epochs=2, held_share=0.2)
    (score,), _ = judge(run, "linear", Settings(probing=probing))
    assert score["settings"]["form"] == "augmented"
    assert score["chosen"]["encoder"] == {"rate": 0.4}
    assert score["metrics"]["top1"] > 12
