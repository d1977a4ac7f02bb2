"""Faults of an installation, a processor or a disk."""

import json
import shutil
from importlib import metadata
from types import SimpleNamespace

import pytest
import torch
from hostile import largest_file

from hardpair.doctor import Doctor, checks, machine_checks
from hardpair.doctor.machine_checks import StepSeconds, check_disk, check_installation


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
    monkeypatch.setattr(machine_checks.os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(machine_checks, "CPU_QUOTA", tmp_path / "cpu.max")
    (tmp_path / "cpu.max").write_text(quota)
    assert machine_checks.cores() == cores


@pytest.mark.parametrize(
    ("threads", "cores", "level"), [(2, 2, "good"), (4, 8, "good"), (3, 8, "warning"), (9, 8, "warning")]
)
def test_threads_for_the_cores(threads, cores, level):
    assert machine_checks._threads(threads, cores).level == level


@pytest.mark.parametrize("fault", [1e-3, float("nan")])
def test_a_machine_that_miscalculates(monkeypatch, fault):
    real = machine_checks._convolve

    def faulty(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
        outputs, *gradients = real(device, dtype)
        return [outputs, *(g + fault * g.abs().max() if dtype == torch.float32 else g for g in gradients)]

    cpu = torch.device("cpu")
    assert machine_checks._convolution(cpu).level == "good"
    monkeypatch.setattr(machine_checks, "_convolve", faulty)
    assert machine_checks._convolution(cpu).level == "bad"


def test_a_disk_that_fills_up_while_it_is_written(tmp_path):
    """The system itself refuses the second half of the file."""
    with largest_file(32_000_000):
        room, speed = check_disk(Doctor(runs=tmp_path / "not/made/yet"))
    assert (room.level, speed.level) == ("good", "bad")
    assert f"{tmp_path}: cannot be written (File too large)" in speed.found
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    (tmp_path / "runs").write_text("a file, not a folder")
    monkeypatch.setattr(checks, "CHECKS", {"disk": check_disk})
    assert checks.run_doctor(Doctor(runs=tmp_path / "runs", json=True)) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "cannot be written (Not a directory)" in findings[-1]["found"]
    assert "--run" in findings[-1]["advice"]


def test_a_full_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=15_000_000))
    assert levels(check_disk(Doctor(runs=tmp_path)))[0] == "bad"


def test_another_number_of_threads_is_advised_where_it_is_worth_it():
    speeds = {1: StepSeconds(0.1, 1.0), 2: StepSeconds(0.1, 0.9), 4: StepSeconds(0.1, 0.5)}
    assert "--threads 4: 2.0 times as fast as 1" in machine_checks._best_threads(speeds, 1).advice
    assert machine_checks._best_threads({1: speeds[1], 2: speeds[2]}, 1).level == "good"


def test_views_that_take_longer_than_the_encoder():
    finding = machine_checks._data_rate(StepSeconds(views=0.3, whole=0.4), batch_size=30)
    assert finding.level == "warning"
    assert "100 images/s, its encoder takes 300 images/s: 75% of the time" in finding.found
