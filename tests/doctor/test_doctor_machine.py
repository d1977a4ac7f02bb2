"""Faults of an installation, a processor, a disk or a network, each with its words."""

import dataclasses
import json
import shutil
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hostile import largest_file

from hardpair.data import open_images
from hardpair.doctor import compute, rate, run, together, worker
from hardpair.doctor.disk import check_disk
from hardpair.doctor.installation import check_installation
from hardpair.doctor.options import Doctor
from hardpair.doctor.rate import Speed
from hardpair.doctor.tiny import TINY
from hardpair.doctor.together import advice_on, check_together
from hardpair.doctor.worker import distances
from hardpair.train.step import Stepper


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_an_old_package_and_a_missing_one(monkeypatch):
    real = metadata.version

    def version(name: str) -> str:
        if name == "timm":
            raise metadata.PackageNotFoundError(name)
        return "2.9.1+cpu" if name == "torch" else real(name)

    monkeypatch.setattr(metadata, "version", version)
    python, packages = check_installation(Doctor())
    assert (python.level, packages.level) == ("good", "bad")
    assert "torch is 2.9.1+cpu, wanted >=2.10" in packages.found
    assert "timm is missing, wanted >=1.0.15" in packages.found
    assert "torchvision" not in packages.found


@pytest.mark.parametrize(("quota", "cores"), [("150000 100000", 1), ("200000 100000", 2), ("max 100000", 8), ("", 8)])
def test_a_container_may_use_fewer_cores_than_there_are(monkeypatch, tmp_path, quota, cores):
    monkeypatch.setattr(compute.os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(compute, "QUOTA", tmp_path / "cpu.max")
    (tmp_path / "cpu.max").write_text(quota)
    assert compute.cores() == cores


@pytest.mark.parametrize(
    ("threads", "cores", "level"), [(2, 2, "good"), (4, 8, "good"), (3, 8, "warning"), (9, 8, "warning")]
)
def test_threads_for_the_cores(threads, cores, level):
    assert compute._threads(threads, cores).level == level


@pytest.mark.parametrize("fault", [1e-3, float("nan")])
def test_a_machine_that_miscalculates(monkeypatch, fault):
    real = compute._convolve

    def faulty(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
        outputs, *gradients = real(device, dtype)
        return [outputs, *(g + fault * g.abs().max() if dtype == torch.float32 else g for g in gradients)]

    cpu = torch.device("cpu")
    assert compute._convolution(cpu).level == "good"
    monkeypatch.setattr(compute, "_convolve", faulty)
    assert compute._convolution(cpu).level == "bad"


def test_a_disk_that_fills_up_while_it_is_written(tmp_path):
    """The system itself refuses the second half of the file."""
    with largest_file(32_000_000):
        room, speed = check_disk(Doctor(runs=tmp_path / "not/made/yet"))
    assert (room.level, speed.level) == ("good", "bad")
    assert f"{tmp_path}: cannot be written (File too large)" in speed.found
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    (tmp_path / "runs").write_text("a file, not a folder")
    monkeypatch.setattr(run, "CHECKS", {"disk": check_disk})
    assert run.run_doctor(Doctor(runs=tmp_path / "runs", json=True)) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "cannot be written (Not a directory)" in findings[-1]["found"]
    assert "--run" in findings[-1]["advice"]


def test_a_full_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=15_000_000))
    assert levels(check_disk(Doctor(runs=tmp_path)))[0] == "bad"


def test_another_number_of_threads_is_advised_where_it_is_worth_it():
    speeds = {1: Speed(0.1, 1.0), 2: Speed(0.1, 0.9), 4: Speed(0.1, 0.5)}
    assert "--threads 4: 2.0 times as fast as 1" in rate._threads(speeds, 1).advice
    assert rate._threads({1: speeds[1], 2: speeds[2]}, 1).level == "good"


def test_views_that_take_longer_than_the_encoder():
    finding = rate._views(Speed(views=0.3, whole=0.4), batch=30)
    assert finding.level == "warning"
    assert "100 images/s, its encoder takes 300 images/s: 75% of the time" in finding.found


@pytest.mark.slow
def test_processes_that_cannot_meet(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such")
    group, equal = check_together(Doctor())
    assert (group.level, equal.level) == ("bad", "bad")
    assert "nable to find address for: no-such" in group.found
    assert "GLOO_SOCKET_IFNAME names no interface" in group.advice


def test_processes_that_take_too_long(monkeypatch):
    monkeypatch.setattr(together, "SECONDS", 1)
    assert next(check_together(Doctor())).found == "two processes were not done within 1 s"


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("RuntimeError: Gloo connectFullMesh failed: Connection refused", "firewall"),
        ("DistNetworkError: The client socket has timed out after 60000ms", "firewall"),
        ("socket.gaierror: [Errno -2] Name or service not known", "/etc/hosts"),
        ("two processes were not done within 120 s", "too busy"),
        ("ImportError: libgloo", "several processes cannot be used here"),
    ],
)
def test_advice_on_what_torch_says(said, advice):
    assert advice in advice_on(said)


def test_the_first_error_is_told_and_not_the_launcher_s_own():
    said = "[rank1]: Traceback\n[rank1]: ValueError: mine\ntorch.distributed.elastic.ChildFailedError: yours\n"
    assert together._reason(said, 1) == "ValueError: mine"
    assert together._reason("nothing that helps", 3) == "two processes ended with exit code 3"


@pytest.mark.parametrize("wrong", [1e-8, float("nan")])
def test_two_processes_that_learn_something_else(wrong):
    alone = {"loss": torch.tensor(2.0), "gradients": torch.tensor([1.0, -4.0], dtype=torch.float64)}
    apart = distances(alone, {**alone, "gradients": alone["gradients"] * (1 + wrong)})
    assert together._equal({"met": True, "loss": 0.0, "gradients": 1e-12}, "").level == "good"
    assert together._equal({"met": True, **apart}, "").level == "bad"
    assert together._equal({"met": True}, "KeyError: x").found == "not compared: KeyError: x"


def test_the_step_that_two_processes_compare_is_that_of_training(monkeypatch):
    """Also where views are smaller than the images."""
    recipe = dataclasses.replace(TINY, image_size=16, view_size=0.5)
    monkeypatch.setattr(worker, "TINY", recipe)
    stepper = Stepper(recipe, open_images(recipe.data, "train", size=16, root=Path()), worker.CPU)
    stepper.method.train()
    assert torch.equal(worker.first_step()["loss"], stepper.take(0).outputs["loss"])
