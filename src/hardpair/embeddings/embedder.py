"""An encoder with the way it sees pictures: what turns pictures into vectors, and the same for every verb."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardpair.data import Images
from hardpair.data.decode import UnusableError, read_square
from hardpair.data.images import LEAST_SIZE
from hardpair.errors import UserError, require_range, shown
from hardpair.files import read_json
from hardpair.models import Encoder, fingerprint, load_elsewhere, load_encoder
from hardpair.models.exported import is_export, read_export
from hardpair.models.weights import TIMM
from hardpair.precision import Precision
from hardpair.recipes import tested_side
from hardpair.views import plain_view

BATCH = 256
LARGE, SMALL = 224, 32  # pixels that ResNets with the stem for large images, and for small ones, usually see
MOST_SIZE = 1024  # pixels


@dataclass(frozen=True)
class Embedder:
    """Squares of pixels in, vectors out."""

    encoder: Encoder  # in eval mode, on its device
    source: str  # where it was loaded from
    square: int  # pixels a side of the squares that pictures are decoded to
    shown: int  # pixels a side that the encoder sees of them: the whole square, or its centre
    device: torch.device

    @torch.no_grad()
    def vectors(self, pixels: Tensor) -> Tensor:
        """uint8 (n, 3, S, S) → float32 (n, D) on the CPU."""
        images = Images(pixels, None, (), "").tested_at(self.shown)
        rows = [
            self.encoder(plain_view(batch.to(self.device, non_blocking=True), images.shown)).cpu()
            for batch in images.batches(BATCH)
        ]
        return torch.cat(rows) if rows else torch.empty(0, self.encoder.num_features)

    def read(self, path: Path) -> Tensor:
        """A picture as a square: uint8 (1, 3, S, S)."""
        try:
            return torch.from_numpy(read_square(path, self.square).pixels)[None]
        except UnusableError as reason:
            raise UserError(f"{path}: {reason}") from reason

    def facts(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return {
            "source": self.source,
            "fingerprint": fingerprint(self.encoder),
            "num_features": self.encoder.num_features,
            "settings": dict(self.encoder.settings),
            "square": self.square,
            "shown": self.shown,
            "precision": self.encoder.precision,
        }


def open_embedder(
    source: str | os.PathLike[str],
    *,
    device: torch.device,
    name: str = "",
    image_size: int | None = None,
    precision: Precision = "float32",
) -> Embedder:
    """The encoder of a run, ``timm:NAME``, a file of weights, or an export, as evaluation shows images to it.

    Args:
        source: where it is.
        device: where it computes.
        name: for a file of weights: the encoder they belong to, if the file does not show it.
        image_size: pixels that it sees; as in training when not given.
        precision: of its arithmetic; vectors are float32.
    """
    source = os.fspath(source)
    if image_size is not None:
        require_range("image_size", image_size, LEAST_SIZE, MOST_SIZE)
    if Path(source).is_dir():
        if name:
            raise UserError("encoder: a folder knows its encoder; leave it out")
        encoder = load_encoder(source)
        square, size = _sizes_of_export(Path(source)) or _sizes_of_run(Path(source), encoder)
    else:
        encoder = load_elsewhere(source, name, image_size or 0)
        square = size = encoder.settings.get("image_size", SMALL if encoder.settings.get("small_images") else LARGE)
    if image_size is not None:
        encoder.require_sizes({image_size})
        size = image_size
        square = size if encoder.settings.get("small_images") else max(size, square)
    encoder.precision = precision
    encoder = encoder.to(device).to(memory_format=torch.channels_last).eval()
    return Embedder(encoder, source if ":" in source else os.path.abspath(source), square, size, device)  # noqa: PTH100


def _sizes_of_export(folder: Path) -> tuple[int, int] | None:
    """As the exported encoder saw images; nothing where the folder is a run."""
    if not is_export(folder):
        return None
    known = read_export(folder)
    return known.square, known.shown


def _sizes_of_run(run: Path, encoder: Encoder) -> tuple[int, int]:
    """Squares of training, and what evaluation shows of them."""
    file = run / "recipe.json"
    try:
        recipe = read_json(file)
        square, share = recipe["image_size"], recipe.get("view_size", 1.0)
        require_range("image_size", square, LEAST_SIZE, MOST_SIZE)
        require_range("view_size", share, 0.01, MOST_SIZE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file}: cannot be read ({str(error)[:120]}); is {run} a run?") from error
    return square, tested_side(square, share, small_images=encoder.settings.get("small_images", False))


def embedder_of(manifest: Mapping[str, Any], *, device: torch.device, source: str = "") -> Embedder:
    """The encoder that made an embedding, where it still is as it was; or another copy of it, at ``source``."""
    made = manifest["encoder"]
    if not source and not made["source"].startswith(TIMM) and not Path(made["source"]).exists():
        where = shown(made["source"])
        raise UserError(f"encoder: {where} is not there any more; say with --encoder where it is now")
    embedder = open_embedder(
        source or made["source"],
        device=device,
        name=made["settings"]["name"] if Path(source or made["source"]).is_file() else "",
        precision=made["precision"],
    )
    if fingerprint(embedder.encoder) != made["fingerprint"]:
        raise UserError(
            f"encoder: {shown(embedder.source)} is not the encoder that made these vectors; "
            "give the right one with --encoder, or embed the images again"
        )
    return Embedder(embedder.encoder, embedder.source, int(made["square"]), int(made["shown"]), device)
