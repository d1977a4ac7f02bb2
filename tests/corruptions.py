"""Random damage to a checkpoint, each kind of it such as disks, networks and people cause."""

import random
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from hardpair.train.checkpoints import load_checkpoint, save_checkpoint

FILES = ("state.safetensors", "state.json")
Content = dict[str, bytes]


def write_two(folder: Path) -> tuple[Content, Content]:
    """Two checkpoints of a small network in training, as steps 1 and 2; the content of both."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 24), nn.BatchNorm1d(24), nn.Linear(24, 4))
    optimiser = torch.optim.Adam(network.parameters())
    for step in (1, 2):
        network(torch.randn(8, 16)).square().sum().backward()
        optimiser.step()
        save_checkpoint(folder, step, network, optimiser)
    first, second = ({name: (folder / f"{step:09d}" / name).read_bytes() for name in FILES} for step in (1, 2))
    return first, second


def flip(content: bytes, draw: random.Random) -> bytes:
    """One bit, or a few."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(content: bytes, draw: random.Random) -> bytes:
    """Only the beginning."""
    return content[: draw.randrange(len(content))]


def append(content: bytes, draw: random.Random) -> bytes:
    """A tail; white space is what JSON would not mind."""
    return content + draw.choice((b"\n", b" ", b"\0", draw.randbytes(draw.randrange(1, 5000))))


def zero(content: bytes, draw: random.Random) -> bytes:
    """A block of zeros, as a file system leaves it after a power cut."""
    start, length = draw.randrange(len(content)), draw.choice((1, 16, 512, 4096))
    return content[:start] + bytes(len(content[start : start + length])) + content[start + length :]


def remove(content: bytes, draw: random.Random) -> bytes:
    """A block is missing in the middle."""
    start = draw.randrange(len(content))
    return content[:start] + content[start + draw.randrange(1, 600) :]


def repeat(content: bytes, draw: random.Random) -> bytes:
    """A block stands there twice."""
    start = draw.randrange(len(content))
    return content[:start] + content[start : start + draw.randrange(1, 600)] + content[start:]


IN_ONE_FILE: tuple[Callable[[bytes, random.Random], bytes], ...] = (flip, flip, cut, append, zero, remove, repeat)


def damage(first: Content, second: Content, draw: random.Random) -> tuple[str, Content]:
    """What happened to the second checkpoint, in words, and what it holds now; never nothing."""
    name = draw.choice(FILES)
    if draw.random() < 0.1:  # files of two checkpoints, or of one, are mixed up
        other = first[name] if draw.random() < 0.5 else second[FILES[name == FILES[0]]]
        return f"{name} is another file", {**second, name: other}
    how = draw.choice(IN_ONE_FILE)
    changed = second[name]
    while changed == second[name]:
        changed = how(second[name], draw)
    return f"{name}: {how.__name__}", {**second, name: changed}


def check_fallback(folder: Path, *, trials: int, seed: int) -> None:
    """Damage the newer of two checkpoints again and again: it must show each time, and the older one be used."""
    first, second = write_two(folder)
    draw = random.Random(seed)
    missed = []
    for trial in range(trials):
        words, content = damage(first, second, draw)
        for path in folder.glob("unreadable-*"):
            path.rename(folder / "000000002")
        for name in FILES:
            (folder / "000000002" / name).write_bytes(content[name])
        checkpoint, complaints = load_checkpoint(folder)
        told = len(complaints) == 1 and "000000002: unreadable" in complaints[0] and "falling back" in complaints[0]
        if checkpoint is None or checkpoint.step != 1 or not told or not complaints[0].isprintable():
            missed.append(f"trial {trial}: {words}: {complaints}")
    assert not missed, f"{len(missed)} of {trials}: {missed[:5]}"
