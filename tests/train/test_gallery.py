"""The hardest pairs at the end of a run; that several processes find the same is in test_shared_steps."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from hardpair.methods.hnpm import HNPM
from hardpair.methods.simsiam import SimSiam
from hardpair.train import gallery, pretrain


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GB")])
def test_a_run_ends_also_where_memory_is_too_small_for_its_pairs(small_recipe, tmp_path, monkeypatch, capsys, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(HNPM, "hard_pairs", fail)
    assert pretrain(dataclasses.replace(small_recipe, batch_size=500, epochs=1), tmp_path / "run").status == "finished"
    assert not (tmp_path / "run/pairs.json").exists()
    events = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in events[-2:]] == ["warning", "end"]
    assert f"warning: {events[-2]['text']}" in capsys.readouterr().out.splitlines()


def test_another_fault_is_not_hidden(small_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(HNPM, "hard_pairs", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pretrain(dataclasses.replace(small_recipe, batch_size=500, epochs=1), tmp_path / "run")


def test_no_view_is_made_where_nothing_is_mined():
    method = SimSiam.__new__(SimSiam)  # which has not even an encoder
    gallery.write_pairs(Path("nowhere"), method, images=None, draw=None)
