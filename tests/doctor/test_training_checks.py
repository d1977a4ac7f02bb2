"""Narrow encoders train within their memory, runs resume exactly, two processes learn what one does."""

import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from instruction_sets import instruction_sets

from hardpair.data import open_images
from hardpair.doctor import Doctor, training_checks
from hardpair.doctor.training_checks import (
    CHECKED_MEMORY,
    CPU,
    METHOD_OF,
    ONE_OF_EACH_KIND,
    TINY,
    NarrowCase,
    advice_on,
    check_narrow,
    check_processes,
    check_resume,
    find_fault,
    first_step,
    relative_differences,
)
from hardpair.train.step import Stepper

ONE_BYTE_TOO_FAR = """
import ctypes, numpy
block = numpy.empty(5000, dtype=numpy.uint8)
ctypes.memset(block.ctypes.data, 1, block.nbytes + {beyond})
del block
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the checks are glibc's")
def test_a_single_byte_past_the_end_is_found():
    codes = []
    for beyond in (0, 1):
        words = [sys.executable, "-c", ONE_BYTE_TOO_FAR.format(beyond=beyond)]
        done = subprocess.run(words, env={**os.environ, **CHECKED_MEMORY}, stderr=subprocess.PIPE, check=False)
        codes.append(done.returncode)
    assert codes[0] == 0
    assert codes[1] < 0


@pytest.mark.slow
def test_the_doctor_trains_every_kind():
    (finding,) = check_narrow(Doctor())
    assert finding.level == "good"
    assert {case.kind for case in ONE_OF_EACH_KIND} == set(METHOD_OF)


def every_narrow_case() -> list[NarrowCase]:
    """All kinds, widths and sizes; colour streams are two encoders of half the width."""
    grid = itertools.product(METHOD_OF, (1 / 16, 1 / 8, 1 / 4, 1 / 2), (32, 64, 96))
    return [NarrowCase(*case) for case in grid if case[0] != "colour streams" or case[1] > 1 / 16]


@pytest.mark.slow
@pytest.mark.parametrize("name", instruction_sets())
def test_every_kind_width_and_size_with_every_instruction_set(name):
    assert find_fault(every_narrow_case(), instruction_sets()[name]) is None


def test_a_crash_names_the_encoder_and_the_signal(monkeypatch):
    class Child:
        returncode, stdout, stderr = -11, "basic of width 0.0625 at 64 px\npatches of width 0.0625 at 64 px\n", ""

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Child)
    (finding,) = check_narrow(Doctor())
    assert finding.level == "bad"
    assert finding.found == "training patches of width 0.0625 at 64 px ended with SIGSEGV"
    assert str(NarrowCase("basic", 1 / 16, 64)) == "basic of width 0.0625 at 64 px"


@pytest.mark.slow
def test_a_run_that_resumes_otherwise_is_bad(monkeypatch):
    real = training_checks.pretrain

    def forgetful(recipe, folder: Path, **options):
        assert options["device"] == "cpu"  # a GPU may round differently each time
        outcome = real(recipe, folder, **options)
        if options["resume"]:
            content = bytearray((folder / "encoder.safetensors").read_bytes())
            content[-1] ^= 1  # the last bit of a weight
            (folder / "encoder.safetensors").write_bytes(content)
        return outcome

    monkeypatch.setattr(training_checks, "pretrain", forgetful)
    (finding,) = check_resume(Doctor())
    assert finding.level == "bad"
    assert finding.found.endswith("in encoder")


@pytest.mark.slow
def test_processes_that_cannot_meet(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such")
    group, equal = check_processes(Doctor())
    assert (group.level, equal.level) == ("bad", "bad")
    assert "nable to find address for: no-such" in group.found
    assert "GLOO_SOCKET_IFNAME names no interface" in group.advice


def test_processes_that_take_too_long(monkeypatch):
    monkeypatch.setattr(training_checks, "PROCESSES_SECONDS", 1)
    assert next(check_processes(Doctor())).found == "two processes were not done within 1 s"


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
    assert training_checks._first_error(said, 1) == "ValueError: mine"
    assert training_checks._first_error("nothing that helps", 3) == "two processes ended with exit code 3"


@pytest.mark.parametrize("wrong", [1e-8, float("nan")])
def test_two_processes_that_learn_something_else(wrong):
    alone = {"loss": torch.tensor(2.0), "gradients": torch.tensor([1.0, -4.0], dtype=torch.float64)}
    apart = relative_differences(alone, {**alone, "gradients": alone["gradients"] * (1 + wrong)})
    assert training_checks._two_as_one({"met": True, "loss": 0.0, "gradients": 1e-12}, "").level == "good"
    assert training_checks._two_as_one({"met": True, **apart}, "").level == "bad"
    assert training_checks._two_as_one({"met": True}, "KeyError: x").found == "not compared: KeyError: x"


def test_the_step_that_two_processes_compare_is_that_of_training(monkeypatch):
    """Also where views are smaller than the images."""
    recipe = dataclasses.replace(TINY, image_size=16, view_size=0.5)
    monkeypatch.setattr(training_checks, "TINY", recipe)
    stepper = Stepper(recipe, open_images(recipe.data, "train", size=16, root=Path()), CPU)
    stepper.method.train()
    assert torch.equal(first_step()["loss"], stepper.take(0).outputs["loss"])
