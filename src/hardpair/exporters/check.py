"""Whether an export gives what the encoder gives: in a fresh process without hardpair, on real pictures."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.data import Images, cifar10, open_images
from hardpair.data.images import generator_for, resize
from hardpair.embeddings.source import open_source
from hardpair.errors import UserError, printable
from hardpair.exporters import reload
from hardpair.exporters.material import Made, Material, loading_from
from hardpair.views import plain_view

COUNT, BATCHES = 64, (1, 7, 64)
LIMITS = {"timm": 1e-5, "torchvision": 1e-5, "huggingface": 1e-5, "torch": 1e-5, "onnx": 1e-4}
"""Largest difference in units of the outputs' root mean square."""
SECONDS = 1800.0  # for the other process; beyond that something hangs


@dataclass(frozen=True)
class Checked:
    """What came of it."""

    difference: float  # the largest of any output of any picture at any batch size, ÷ the outputs' root mean square
    by_batch: dict[int, float]
    pictures: str  # what they were
    seconds: float  # of the other process


@dataclass(frozen=True)
class Pictures:
    """Real pictures as the encoder sees them."""

    pixels: Tensor  # uint8 (64, 3, S, S)
    name: str


def pictures_for(material: Material, data: str, data_root: Path) -> Pictures:
    """Of the images it was trained on, from all over them; of the bundled ones where those are not here."""
    square, shown = material.embedder.square, material.size
    try:
        pixels, name = _of_data(data, square, shown, data_root), Path(data).name
    except (UserError, OSError):
        pixels = torch.empty(0)
    if len(pixels) < COUNT:
        sample = open_images("sample", "test", size=square, root=data_root)
        rows = torch.arange(COUNT) * (len(sample) // COUNT)
        pixels, name = sample.batch(rows), "the bundled photos"
    images = Images(pixels[:COUNT], None, (), "").tested_at(shown)
    return Pictures(resize(images, shown).pixels.contiguous(), name)


def _of_data(data: str, square: int, shown: int, data_root: Path) -> Tensor:
    if data.startswith("cifar10") and not (data_root / cifar10.FOLDER).exists():  # which would be downloaded
        return torch.empty(0)
    source = open_source(data, size=square, least=shown, data_root=data_root)
    rows = torch.randperm(len(source), generator=generator_for("pictures of a check"))[: 4 * COUNT]
    found: list[Tensor] = []
    for row in rows.tolist():
        if len(pixels := source.part(row, row + 1).pixels):  # else it cannot be read
            found.append(resize(Images(pixels, None, (), ""), square).pixels)  # packed sets have a size of their own
        if len(found) == COUNT:
            return torch.cat(found)
    return torch.empty(0)


@torch.no_grad()
def outputs_here(material: Material, pixels: Tensor) -> NDArray[np.float32]:
    """What the encoder gives, and its head: (64, D) or (64, C)."""
    vectors = material.encoder(plain_view(pixels))
    outputs: NDArray[np.float32] = vectors.numpy()
    if material.head is not None:
        outputs = material.head.logits(outputs) / np.float32(material.head.temperature)
    if not np.isfinite(outputs).all():
        raise UserError(f"{material.embedder.source}: gives values that are not finite; is it trained?")
    return outputs


def check_export(form: str, made: Made, material: Material, folder: Path, pictures: Pictures) -> Checked:
    """Reload what lies in the folder; UserError unless it gives the same."""
    expected = outputs_here(material, pictures.pixels)
    began = time.perf_counter()
    found = reloaded(made.lines, folder, pictures.pixels, takes=made.takes, mean=material.mean, std=material.std)
    seconds = time.perf_counter() - began
    by_batch = {size: difference(found[size], expected) for size in BATCHES}
    worst = max(by_batch.values())
    if not worst <= LIMITS[form]:  # which is true of NaN too
        size = max(by_batch, key=lambda size: by_batch[size])
        raise UserError(
            f"to: {form}: reloaded, its outputs differ by {worst:.1e} at a batch of {size}, over {LIMITS[form]:.0e}; "
            "nothing was written"
        )
    return Checked(worst, by_batch, pictures.name, seconds)


def difference(found: NDArray[Any], expected: NDArray[np.float32]) -> float:
    """The largest, in units of the expected values' root mean square; infinite where shapes or values are none."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    scale = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64))))
    return float(np.abs(found.astype(np.float64) - expected).max()) / max(scale, 1e-12)


def reloaded(
    lines: Sequence[str], folder: Path, pixels: Tensor, *, takes: str, mean: Sequence[float], std: Sequence[float]
) -> dict[int, NDArray[Any]]:
    """Outputs at each batch size of what the lines load, in a process that cannot import hardpair."""
    with tempfile.TemporaryDirectory() as scratch:
        job, out = Path(scratch, "job.json"), Path(scratch, "outputs.npy")
        np.save(Path(scratch, "pixels.npy"), pixels.numpy())
        facts = {
            "lines": loading_from(str(folder), lines),
            "takes": takes,
            "pixels": f"{scratch}/pixels.npy",
            "out": str(out),
            "batches": BATCHES,
            "mean": list(mean),
            "std": list(std),
        }
        job.write_text(json.dumps(facts))
        command = [sys.executable, "-I", "-B", reload.__file__, str(job)]
        try:
            done = subprocess.run(  # noqa: S603 - our own script
                command, capture_output=True, text=True, errors="replace", cwd=scratch, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UserError(
                f"to: the export was loaded for {SECONDS:.0f} s without an end; nothing was written"
            ) from error
        if done.returncode:
            last = next(iter(done.stderr.strip().splitlines()[-1:]), "no reason given")
            raise UserError(f"to: the export cannot be loaded again ({printable(last)[:200]}); nothing was written")
        return dict(zip(BATCHES, np.load(out), strict=True))
