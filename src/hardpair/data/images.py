"""What every data source becomes: one block of uint8 pixels, with labels where there are any."""

import functools
import hashlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

Split = Literal["train", "test"]


@dataclass(frozen=True)
class Images:
    """Square uint8 images of one size, in a fixed order."""

    pixels: Tensor  # uint8 (N, 3, S, S); may be memory mapped
    labels: Tensor | None  # int64 (N,); (N, classes) of 1, -1 and 0 where images show several; None without labels
    classes: tuple[str, ...]  # class names, label k is classes[k]; empty without labels
    name: str  # what people call it: "sample/train"
    skipped: tuple[str, ...] = ()  # "file: reason" of files that could not be used
    files: tuple[str, ...] = ()  # (N,) names of the files they come from, where they come from files

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def size(self) -> int:
        """Side of an image in pixels."""
        return int(self.pixels.shape[-1])

    def select(self, rows: Tensor) -> "Images":
        """The images at the given rows, in that order."""
        labels = None if self.labels is None else self.labels[rows]
        files = tuple(self.files[row] for row in rows.tolist()) if self.files else ()
        return replace(self, pixels=self.pixels[rows], labels=labels, files=files)

    def join(self, other: "Images") -> "Images":
        """These images and then the others, which have the same classes."""
        labels = None
        if self.labels is not None and other.labels is not None:
            labels = torch.cat([self.labels, other.labels])
        pixels = torch.cat([self.pixels, other.pixels])
        return replace(
            self, pixels=pixels, labels=labels, name=f"{self.name}+{other.name}", files=self.files + other.files
        )

    def centre(self, size: int) -> "Images":
        """The central square of each image."""
        edge = (self.size - size) // 2
        return replace(self, pixels=self.pixels[:, :, edge : edge + size, edge : edge + size])

    def facts(self) -> dict[str, Any]:
        """Name, number and hash, as runs and scores write them down."""
        return {"name": self.name, "images": len(self), "digest": self.digest()}

    def digest(self) -> str:
        """Hash of every pixel and label, so that a score says exactly what it was measured on."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        sha = hashlib.sha256(str(tuple(self.pixels.shape)).encode())
        for start in range(0, len(self), 4096):
            sha.update(self.pixels[start : start + 4096].contiguous().numpy().data)
        if self.labels is not None:
            sha.update(self.labels.to(torch.int64).contiguous().numpy().data)
        return sha.hexdigest()
