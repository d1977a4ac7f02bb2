"""Narrow encoders of every kind train within their memory, with every instruction set of this processor."""

import os
import subprocess
import sys

import pytest
from instruction_sets import instruction_sets

from hardpair.doctor import narrow
from hardpair.doctor.narrow import CHECKED_MEMORY, SHORT, Case, check_narrow, every_case, find_fault
from hardpair.doctor.options import Doctor

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
    assert {case.kind for case in SHORT} == set(narrow.METHOD_OF)


@pytest.mark.slow
@pytest.mark.parametrize("name", instruction_sets())
def test_every_kind_width_and_size_with_every_instruction_set(name):
    assert find_fault(every_case(), instruction_sets()[name]) is None


def test_a_crash_names_the_encoder_and_the_signal(monkeypatch):
    class Child:
        returncode, stdout, stderr = -11, "basic of width 0.0625 at 64 px\npatches of width 0.0625 at 64 px\n", ""

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Child)
    (finding,) = check_narrow(Doctor())
    assert finding.level == "bad"
    assert finding.found == "training patches of width 0.0625 at 64 px ended with SIGSEGV"
    assert str(Case("basic", 1 / 16, 64)) == "basic of width 0.0625 at 64 px"
