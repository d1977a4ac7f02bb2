"""Ten steps of every method give the losses that are written down, whatever the processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import golden_losses
import pytest
from instruction_sets import instruction_sets

GOLDEN = json.loads(golden_losses.FILE.read_text())
CLOSE = 1e-3  # relative; measured: 8e-5 between SSE4.1 and AVX-512


@pytest.mark.parametrize("case", [case for case in GOLDEN if "," not in case])
def test_golden_losses(case):
    assert golden_losses.losses(case) == pytest.approx(GOLDEN[case], rel=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", instruction_sets())
def test_golden_losses_with_every_instruction_set(name):
    folders = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **instruction_sets()[name], "PYTHONPATH": folders}
    words = [sys.executable, golden_losses.__file__]
    found = json.loads(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)
    assert found.keys() == GOLDEN.keys() == golden_losses.CASES.keys()
    for case, losses in found.items():
        assert losses == pytest.approx(GOLDEN[case], rel=CLOSE), case
