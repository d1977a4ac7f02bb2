"""Nothing is lost when a run is killed: real processes, real SIGKILLs, at random moments and inside a save."""

import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import lives
import pytest
from lives import EVERY, live
from together import SERVER, together

from hardpair.train import pretrain
from hardpair.train.checkpoints import load_checkpoint


# A life lasts up to a fifth of a second: enough for some steps and saves, and too little for the run to end before it
# is killed often enough.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "epochs"), [pytest.param(4, 8, id="few"), pytest.param(100, 200, id="many", marks=pytest.mark.soak)]
)
def test_killed_at_random_moments_ends_as_if_nothing_had_been(kills, epochs, tmp_path):
    live(tmp_path / "undisturbed", epochs)
    run, chance, killed = tmp_path / "killed", random.Random(0), 0
    while killed < kills:
        life = SERVER.Process(target=live, args=(run, epochs))
        life.start()
        wait_for(life, run / "log.jsonl")
        time.sleep(chance.uniform(0, 0.2))
        life.kill()
        life.join()
        assert life.exitcode == -signal.SIGKILL, "it ended before it was killed: give it more epochs"
        killed += 1
        nothing_lost(run)
    live(run, epochs)
    same_end(run, tmp_path / "undisturbed")


def wait_for(life: multiprocessing.process.BaseProcess, log: Path) -> None:
    """Until the run's folder is there, or this life has begun to write to it."""
    before = log.stat().st_mtime_ns if log.exists() else 0
    while life.is_alive() and (log.stat().st_mtime_ns if log.exists() else 0) == before:
        time.sleep(0.005)


def nothing_lost(run: Path) -> None:
    """Every checkpoint can be read, and the newest is at most one interval behind what was done."""
    checkpoint, complaints = load_checkpoint(run / "checkpoints")
    assert complaints == []
    steps = [json.loads(line).get("step", 0) for line in whole_lines(run / "log.jsonl")]
    assert (checkpoint.step if checkpoint else 0) >= max(steps, default=0) - EVERY


def whole_lines(log: Path) -> list[str]:
    """The last one may have been cut."""
    return [line for line in log.read_text().split("\n")[:-1] if line.endswith("}")]


def same_end(run: Path, undisturbed: Path) -> None:
    """The same weights, the same optimiser, the same figures."""
    assert (run / "encoder.safetensors").read_bytes() == (undisturbed / "encoder.safetensors").read_bytes()
    newest = [max((folder / "checkpoints").glob("0*")) / "state.safetensors" for folder in (run, undisturbed)]
    assert newest[0].read_bytes() == newest[1].read_bytes()
    figures = [[strip(line) for line in whole_lines(folder / "log.jsonl")] for folder in (run, undisturbed)]
    assert [line for line in figures[0] if line] == [line for line in figures[1] if line]


def strip(line: str) -> dict[str, object]:
    """What a step logged, without what depends on the clock; nothing of other events."""
    content = json.loads(line)
    timed = ("images_per_second", "data_wait")
    return {k: v for k, v in content.items() if k not in timed} if content["event"] == "step" else {}


def test_killed_before_anything_was_said(small_recipe, tmp_path):
    """What is left is no run yet, and no reason to refuse one."""
    (tmp_path / "run").mkdir()
    for name in ("lock", ".recipe.json.7.tmp"):
        (tmp_path / "run" / name).touch()
    assert pretrain(small_recipe, tmp_path / "run", until=1).step == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["state.safetensors", "state.json", "rename"])
def test_killed_inside_a_save(moment, tmp_path):
    """The process dies in the middle of writing its second checkpoint; the first is what is left, and enough."""
    life = SERVER.Process(target=die_in_save, args=(tmp_path / "run", moment))
    life.start()
    life.join()
    assert life.exitcode == -signal.SIGKILL
    checkpoint, complaints = load_checkpoint(tmp_path / "run/checkpoints")
    assert checkpoint is not None
    assert (checkpoint.step, complaints) == (EVERY, [])
    (tmp_path / "run/checkpoints/.000000007.tmp").mkdir()  # of a step that will not be saved again
    live(tmp_path / "run", 1)
    assert list((tmp_path / "run/checkpoints").glob(".*")) == []
    live(tmp_path / "undisturbed", 1)
    same_end(tmp_path / "run", tmp_path / "undisturbed")


def die_in_save(run: Path, moment: str) -> None:
    """Half of a file is written, or all but the name; then the process kills itself."""
    from hardpair.train import checkpoints

    write, rename = checkpoints.write_atomically, Path.rename

    def dying_write(path: Path, content: bytes) -> None:
        if path.name == moment and f"{2 * EVERY}" in path.parent.name:
            path.write_bytes(content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, content)

    def dying_rename(self: Path, target: Path) -> Path:
        if moment == "rename" and f"{2 * EVERY}" in self.name:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    checkpoints.write_atomically, Path.rename = dying_write, dying_rename
    live(run, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "epochs"), [pytest.param(1, 4, id="one"), pytest.param(10, 40, id="ten", marks=pytest.mark.soak)]
)
def test_torchrun_recovers_from_killed_workers(kills, epochs, tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    together(2, live, undisturbed, epochs)
    command, chance = start(killed, epochs, restarts=kills), random.Random(0)
    deaths = 0
    while deaths < kills:
        wait_for_start(killed / "log.jsonl", deaths + 1, command)
        time.sleep(chance.uniform(0, 0.3))
        victim = chance.choice(workers(command.pid))
        os.kill(victim, signal.SIGKILL)
        deaths += 1
    assert command.wait(timeout=600) == 0
    assert (killed / "encoder.safetensors").read_bytes() == (undisturbed / "encoder.safetensors").read_bytes()


@pytest.mark.soak
def test_two_machines_recover_from_a_killed_worker(tmp_path, monkeypatch):
    """One torchrun counts a restart and the other does not; with a store for all starts they would never meet again."""
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    how = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={where}", "--rdzv-id=two"]
    machines = [start(tmp_path / "run", 4, 1, how) for _ in range(2)]
    try:
        wait_for_start(tmp_path / "run/log.jsonl", 1, machines[0])
        os.kill(workers(machines[1].pid)[0], signal.SIGKILL)
        assert [machine.wait(timeout=300) for machine in machines] == [0, 0]
    finally:
        for machine in machines:
            machine.terminate()
    assert (tmp_path / "run/log.jsonl").read_text().count('"event": "start"') == 2


HERE = ("--standalone", "--nproc-per-node=2")


def start(run: Path, epochs: int, restarts: int, how: Sequence[str] = HERE) -> subprocess.Popen[bytes]:
    """Two processes under torchrun, or one of two torchruns with a process each."""
    words = [sys.executable, "-m", "torch.distributed.run", *how]
    words += [f"--max-restarts={restarts}", "--monitor-interval=0.1", lives.__file__, str(run), str(epochs)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_start(log: Path, times: int, command: subprocess.Popen[bytes]) -> None:
    """Until the run was begun so many times."""
    while not log.exists() or log.read_text().count('"event": "start"') < times:
        assert command.poll() is None, "torchrun gave up, or the run ended before it could be killed"
        time.sleep(0.02)


def workers(launcher: int) -> list[int]:
    """The processes that torchrun started."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(child) for child in children]
