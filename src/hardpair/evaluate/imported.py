"""An encoder that was trained elsewhere, as the folder of a run, so that it is evaluated and reported like one."""

import json
import re
from pathlib import Path

from hardpair import distributed
from hardpair.errors import UserError
from hardpair.files import write_atomically
from hardpair.models import Encoder, fingerprint, load_elsewhere, load_encoder, save_encoder
from hardpair.models.exported import is_export, read_export

METHOD = "imported"  # in recipe.json, where a run has its method
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".tar", ".ckpt")  # of weights; folders of runs may have others
LARGE, SMALL = 224, 32  # pixels; what ResNets with the one stem and the other are usually trained with


def is_run(source: str) -> bool:
    """Whether this is the folder of a run, or meant to be one."""
    path = Path(source)
    if path.is_dir():
        return not is_export(path)
    return not (source.startswith("timm:") or path.is_file() or path.suffix in SUFFIXES)


def import_encoder(source: str, *, data: str | None, encoder: str = "", image_size: int | None = None) -> Path:
    """Write the encoder of ``timm:NAME``, of a file of weights or of an export into a folder below ``runs/``.

    Args:
        source: what to read; its weights decide the name of the folder.
        data: the images it is to be evaluated on.
        encoder: the encoder that the weights belong to, if the file does not show it.
        image_size: pixels; those that the weights were made for when not given, as far as that is known.
    """
    if data is None:
        raise UserError(f"data: {source} is no run with images of its own; give labelled images with --data FOLDER")
    made, square, size = _opened(source, encoder, image_size)
    known = fingerprint(made)[:16]
    name = source if source.startswith("timm:") else Path(source).stem
    folder = Path("runs") / f"{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-.')}-{known[:8]}"
    if distributed.is_main():
        folder.mkdir(parents=True, exist_ok=True)
        save_encoder(made, folder, step=0)
        recipe = {
            "name": source,
            "method": METHOD,
            "data": data,
            "image_size": square,
            "view_size": size / square,
            "seed": 0,
        }
        content = {**recipe, "encoder": made.settings["name"], "hash": known}
        write_atomically(folder / "recipe.json", json.dumps(content, indent=2).encode())
    return folder


def _opened(source: str, encoder: str, image_size: int | None) -> tuple[Encoder, int, int]:
    """The encoder, pixels a side of the squares that are decoded for it, and of what it sees of them."""
    if Path(source).is_dir():
        if encoder:
            raise UserError("encoder: an export knows its encoder; leave it out")
        made, known = load_encoder(source), read_export(Path(source))
        return (made, known.square, known.shown) if image_size is None else (made, image_size, image_size)
    made = load_elsewhere(source, encoder, image_size or 0)
    usual = SMALL if made.settings.get("small_images") else LARGE
    size = image_size or made.settings.get("image_size", usual)
    return made, size, size
