"""What goes wrong on one process, in one step or in one folder, and what becomes of the rest."""

import ast
import dataclasses
import fcntl
import gc
import json
import resource
import shutil
from pathlib import Path

import faulty
import lives
import pytest
import torch
from safetensors.torch import load_file
from together import together
from torch import Tensor

import hardpair
from hardpair.errors import UserError
from hardpair.methods.hnpm import HNPM
from hardpair.train import pretrain
from hardpair.train.monitor import Meter
from hardpair.train.step import Stepper
from hardpair.train.trainer import MOST_SKIPPED


def spoil(patch: pytest.MonkeyPatch, steps: range, *, where: str) -> None:
    """Put a NaN into an image, the loss or the gradient in some steps."""
    forward, count = HNPM.forward, iter(range(10**6))

    def spoilt(self: HNPM, views: list[Tensor]) -> dict[str, Tensor]:
        bad = next(count) in steps
        if bad and where == "image":
            views[0][0, 0, 0, 0] = float("nan")
        outputs = forward(self, views)
        if bad and where == "loss":
            outputs["loss"] = outputs["loss"] + float("inf")
        if bad and where == "gradient":
            outputs["loss"].register_hook(lambda gradient: gradient * float("nan"))
        return outputs

    patch.setattr(HNPM, "forward", spoilt)


@pytest.mark.parametrize("where", ["image", "loss", "gradient"])
def test_a_bad_step_changes_nothing(where, small_recipe, monkeypatch):
    from hardpair.data import open_images

    stepper = Stepper(small_recipe, open_images("sample", "train", size=8, root=Path()), torch.device("cpu"))
    stepper.method.train()
    assert stepper.take(0).sound
    before = {name: value.clone() for name, value in stepper.method.state_dict().items()}
    moments = [value.clone() for state in stepper.optimiser.state.values() for value in state.values()]
    with monkeypatch.context() as patch:
        spoil(patch, range(1), where=where)
        assert not stepper.take(1).sound
    assert all(torch.equal(before[name], value) for name, value in stepper.method.state_dict().items())
    after = [value for state in stepper.optimiser.state.values() for value in state.values()]
    assert all(torch.equal(a, b) for a, b in zip(moments, after, strict=True))
    assert stepper.take(2).sound


def test_skipped_steps_are_counted_and_their_images_written_down(small_recipe, tmp_path, monkeypatch, capsys):
    spoil(monkeypatch, range(5, 7), where="loss")
    assert pretrain(small_recipe, tmp_path / "run").status == "finished"
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    skipped = [line for line in lines if line["event"] == "skipped"]
    assert [(line["step"], len(line["rows"])) for line in skipped] == [(6, 50), (7, 50)]
    assert capsys.readouterr().out.count("the step was skipped") == 2


def test_skipped_right_after_a_resume(small_recipe, tmp_path, monkeypatch):
    """Averages go on from the checkpoint, but until a step has been taken there is nothing to say of features."""
    pretrain(small_recipe, tmp_path / "run", checkpoint_every=8, until=9)
    (tmp_path / "run/checkpoints/000000009").rename(tmp_path / "newest")
    spoil(monkeypatch, range(2), where="loss")
    assert pretrain(small_recipe, tmp_path / "run", resume=True, until=12).step == 12


def test_too_many_in_a_row_stop_the_run(small_recipe, tmp_path, monkeypatch):
    spoil(monkeypatch, range(12, 1000), where="image")
    with pytest.raises(UserError, match=f"not finite in {MOST_SKIPPED} steps in a row, up to step {12 + MOST_SKIPPED}"):
        pretrain(small_recipe, tmp_path / "run", checkpoint_every=10)
    weights = load_file(tmp_path / "run/checkpoints/000000010/state.safetensors")
    assert all(value.isfinite().all() for value in weights.values())


@pytest.mark.slow
def test_a_bad_number_on_one_process_skips_the_step_on_all(tmp_path):
    """The second of two processes has it; both write the same weights, and neither waits for the other."""
    together(2, faulty.main, tmp_path)
    first, second = (load_file(tmp_path / f"{place}.safetensors") for place in (0, 1))
    assert first["sound"].tolist() == second["sound"].tolist() == [1, 0, 1]
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) and value.isfinite().all() for name, value in first.items())


@pytest.mark.slow
def test_machines_that_see_different_things_all_stop(tmp_path):
    """Two processes with a folder each: other checkpoints, one at its end, other images. None waits for the other."""
    lives.live(tmp_path / "begun", epochs=1, until=3)
    for case in ("checkpoint", "end", "images"):
        for place in ("0", "1"):
            shutil.copytree(tmp_path / "begun", tmp_path / case / place)
    shutil.rmtree(tmp_path / "checkpoint/1/checkpoints")
    with (tmp_path / "end/0/log.jsonl").open("a") as log:
        log.write('{"event": "end", "step": 20}\n')
    together(2, faulty.folder_each, tmp_path)
    for place in (0, 1):
        told = (tmp_path / f"{place}.txt").read_text().splitlines()
        assert [line.split(":")[0] for line in told] == [
            f"the newest checkpoint of {tmp_path / 'checkpoint' / str(place)}",
            f"the end of {tmp_path / 'end' / str(place)}",
            "the images of sample/train",
        ]
        assert all("all machines must see the same run folder and images" in line for line in told)


@pytest.mark.slow
def test_the_first_of_all_then_of_each_machine_then_the_rest(tmp_path):
    together(3, faulty.take_turns, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "021"


def test_a_second_run_in_the_same_folder_is_refused(small_recipe, tmp_path):
    run = tmp_path / "run"
    pretrain(small_recipe, run, until=2)
    with (run / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="is being trained by another process"):
            pretrain(small_recipe, run, resume=True, until=4)
    assert pretrain(small_recipe, run, resume=True, until=4).step == 4


def test_no_duration_is_taken_from_the_wall_clock():
    """So that a clock that jumps, for daylight or by correction, changes no rate, no estimate and no decision."""
    for file in Path(hardpair.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
                assert node.attr in ("monotonic", "perf_counter", "sleep"), f"{file}:{node.lineno}"


@pytest.mark.soak
def test_ten_minutes_of_steps_leak_nothing(small_recipe):
    """Memory grows by less than 1 MB in 1,000 steps, and no file stays open."""
    import time

    from hardpair.data import open_images

    recipe = dataclasses.replace(small_recipe, epochs=10**5, batch_size=32)
    stepper, meter = Stepper(recipe, open_images("sample", "train", size=8, root=Path()), torch.device("cpu")), Meter()
    stepper.method.train()
    began, step, points = time.monotonic(), 0, []
    while time.monotonic() - began < 600:
        for _ in range(500):
            done = stepper.take(step)
            meter.add(done.outputs, images=32, waited=0.0)
            step += 1
        meter.read()
        gc.collect()
        points.append((step, resident(), len(list(Path("/proc/self/fd").iterdir()))))
    steady = points[len(points) // 4 :]  # the first minutes fill caches
    steps, bytes_, files = (torch.tensor(column, dtype=torch.float64) for column in zip(*steady, strict=True))
    slope = ((steps - steps.mean()) * (bytes_ - bytes_.mean())).sum() / (steps - steps.mean()).square().sum()
    print(f"{step} steps, {slope:.0f} bytes a step more, {files.max():.0f} open files")
    assert slope * 1000 < 1e6
    assert files.max() == files.min()


def resident() -> int:
    """Bytes of memory this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
