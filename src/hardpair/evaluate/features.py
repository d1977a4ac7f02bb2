"""Features of images under an encoder, computed once and cached on disk for every protocol."""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardpair import distributed
from hardpair.data import Images
from hardpair.data.cache import cache_file, discard, open_known, reserve
from hardpair.data.progress import progress
from hardpair.models import Encoder, fingerprint
from hardpair.views import plain_view

BATCH = 256
LOST = "the features will be computed again next time"
log = logging.getLogger("hardpair")
FORMAT = 1  # raise it when plain views or the pooling change


def features_of(encoder: Encoder, images: Images, device: torch.device) -> Tensor:
    """Features of the plain images at the size they are shown, float32 (N, num_features), memory mapped from the cache.

    The file is named by the hash of every weight and pixel. Two evaluations at once may both compute them; each writes
    a file of its own, and the last to finish gives its file the name. Several ranks share the work, and all get all
    features.
    """
    shape = (len(images), encoder.num_features)
    rounded = "" if encoder.precision == "float32" else f" {encoder.precision}"
    key = hashlib.sha256(f"{FORMAT} {fingerprint(encoder)} {images.digest()}{rounded}".encode()).hexdigest()
    path = cache_file(f"features/{key}.npy")
    known = None if path is None else _load(path, shape)
    [missing] = distributed.any_rank(known is None, device=device)  # all ranks compute, or none
    if known is not None and not missing:
        return known
    _refuse_training_mode(encoder)
    return _compute(encoder, images, device, path if distributed.is_main() else None, shape)


@torch.no_grad()
def outputs(network: nn.Module, images: Images, device: torch.device) -> Tensor:
    """Outputs of a network in eval mode for the plain images, float32 on the CPU."""
    _refuse_training_mode(network)
    return torch.cat(list(_batches(network, images, device)))


def _refuse_training_mode(network: nn.Module) -> None:
    if any(module.training for module in network.modules()):
        raise ValueError("the network is in training mode, so batch norm would mix images; call .eval() first")


def _batches(network: nn.Module, images: Images, device: torch.device) -> Iterator[Tensor]:
    network = network.to(device).to(memory_format=torch.channels_last)
    starts = range(0, len(images), BATCH)
    with progress(f"features of {images.name}", len(images)) as advance:
        for first in range(0, len(starts), distributed.world_size()):
            # One batch per rank; if fewer are left, several ranks compute the last one.
            start = starts[min(first + distributed.rank(), len(starts) - 1)]
            batch = images.batch(torch.arange(start, min(start + BATCH, len(images))))
            computed = network(plain_view(batch.to(device, non_blocking=True), images.shown)).float()
            for own, features in zip(starts[first:], _gather(computed), strict=False):
                filled = features[: len(images) - own]
                yield filled.cpu()
                advance(len(filled))


def _gather(features: Tensor) -> tuple[Tensor, ...]:
    """The batches of all ranks, padded to the same length."""
    if distributed.world_size() == 1:
        return (features,)
    padded = features.new_zeros(BATCH, features.shape[1])
    padded[: len(features)] = features
    return tuple(distributed.gather(padded).split(BATCH))


def _load(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """The features, or None if there are none or the file is damaged."""
    found = open_known(path, shape, np.float32)
    return None if found is None else torch.from_numpy(found)


@torch.no_grad()
def _compute(
    encoder: Encoder, images: Images, device: torch.device, path: Path | None, shape: tuple[int, int]
) -> Tensor:
    array, part = reserve(path, shape, np.float32, lost=LOST)
    try:
        start = 0
        for batch in _batches(encoder, images, device):
            array[start : start + len(batch)] = batch.numpy()
            start += len(batch)
        if part is None or path is None:
            return torch.from_numpy(array)
        return _publish(array, part, path)
    finally:
        discard(part)


def _publish(array: NDArray[np.float32], part: Path, path: Path) -> Tensor:
    """Give the file its name and return a copy-on-write view, so that nobody can change the file by accident."""
    assert isinstance(array, np.memmap)
    known = None
    try:
        array.flush()
        part.replace(path)
        known = _load(path, array.shape)
    except OSError as error:
        log.warning("the cache cannot be written (%s), so %s", error, LOST)
    return torch.from_numpy(array) if known is None else known
