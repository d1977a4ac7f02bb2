"""The template for SLURM, with stand-ins for SLURM's commands and for torchrun."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/slurm.sh"
STAND_INS = {
    "scontrol": '[ "$1" = show ] && echo node-a || echo "$@" >> "$NOTES/requeued"',
    "srun": 'exec "$@"',
    "torchrun": """
echo "$@" > "$NOTES/arguments"
echo "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT $TORCH_DISABLE_SHARE_RDZV_TCP_STORE" > "$NOTES/settings"
trap 'echo saved > "$NOTES/saved"; exit 143' TERM
touch "$NOTES/started"
[ -n "${QUICK:-}" ] && exit "$QUICK"
while :; do sleep 0.05; done""",
}


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of a job."""
    for name, body in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_JOB_NUM_NODES": "2"}
    return {**job, "SLURM_GPUS_ON_NODE": "8", "NOTES": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def start(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    words = ["bash", str(SCRIPT), "imagenet/hnpm", "--run", "runs/x"]
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)


def test_a_time_limit_saves_and_requeues(slurm, tmp_path):
    job = start(slurm)
    while not (tmp_path / "started").exists():
        time.sleep(0.01)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=20) == 0
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"
    arguments = (tmp_path / "arguments").read_text()
    assert "--nnodes=2 --nproc-per-node=8" in arguments
    assert (tmp_path / "settings").read_text() == "110 1\n"  # time to save before torchrun kills; a new store each time
    assert "--rdzv-endpoint=node-a:29500" in arguments
    assert arguments.endswith("-m hardpair -- pretrain imagenet/hnpm --run runs/x --resume\n")


@pytest.mark.parametrize("code", ["0", "2"])
def test_an_end_of_its_own_is_the_end_of_the_job(slurm, tmp_path, code):
    assert start({**slurm, "QUICK": code}).wait(timeout=20) == int(code)
    assert not (tmp_path / "requeued").exists()
