"""Three processes give the scores of one, whether features are known already, to all or to some, or not."""

import json
import shutil
from pathlib import Path

import pytest
from judged import judge
from together import together

from hardpair import distributed
from hardpair.errors import UserError


def scores(run: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()]
    return [{name: line[name] for name in ("protocol", "metrics", "control", "chosen", "data")} for line in lines]


@pytest.mark.slow
def test_three_processes_judge_as_one(finished_run, tmp_path):
    """6,000 images are 20 and 4 batches of features, so the processes do not have equally many of them."""
    alone, shared = (shutil.copytree(finished_run, tmp_path / name) for name in ("alone", "shared"))
    together(1, judge, alone, tmp_path / "one")
    together(3, judge, shared, tmp_path / "three")
    assert scores(shared) == scores(alone)
    assert len(scores(shared)) == 2
    assert (shared / "neighbours.json").read_bytes() == (alone / "neighbours.json").read_bytes()
    files = [sorted(path.name for path in (tmp_path / cache / "features").iterdir()) for cache in ("one", "three")]
    assert files[0] == files[1]
    assert all(
        (tmp_path / "one/features" / name).read_bytes() == (tmp_path / "three/features" / name).read_bytes()
        for name in files[0]
    )


def test_a_network_is_trained_by_one_process(finished_run, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(UserError, match="semi: trains a network, which one process does; start it without torchrun"):
        judge(finished_run, tmp_path, ("semi",))
