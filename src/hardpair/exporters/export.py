"""`hardpair export`: an encoder in the form that other people's code loads, once it is known to give the same there."""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch

from hardpair.embeddings.embedder import Embedder, open_embedder
from hardpair.embeddings.head import LinearHead, load_head
from hardpair.errors import UserError, nearest, shown
from hardpair.exporters.card import about, training_images, write_card
from hardpair.exporters.check import Checked, check_export, pictures_for
from hardpair.exporters.material import Made, Material, loading_from
from hardpair.exporters.onnx_form import require_onnx, write_onnx
from hardpair.exporters.timm_form import write_huggingface, write_timm
from hardpair.exporters.torch_form import write_torch
from hardpair.exporters.torchvision_form import write_torchvision
from hardpair.machine import prepare_to_compute
from hardpair.models import fingerprint
from hardpair.models.exported import CONFIG, OURS, is_export, read_export

Form = Literal["timm", "torchvision", "huggingface", "onnx", "torch"]
Folder = str | os.PathLike[str]
log = logging.getLogger("hardpair")
FORMS: dict[str, Callable[[Material, Path], Made]] = {
    "timm": write_timm,
    "torchvision": write_torchvision,
    "huggingface": write_huggingface,
    "onnx": write_onnx,
    "torch": write_torch,
}


@dataclass(frozen=True)
class Export:
    """A folder for other people's code, and how near its outputs are to those of the encoder."""

    folder: Path
    form: str
    lines: tuple[str, ...]  # of Python, that load it from the folder that holds it
    checked: Checked

    def __fspath__(self) -> str:
        return str(self.folder)


def export(
    encoder: Folder,
    *,
    to: Form,
    out: Folder,
    head: Folder | None = None,
    image_size: int | None = None,
    name: str = "",
    data_root: Folder = "data",
    threads: int = 0,
) -> Export:
    """Write an encoder for timm, torchvision, the Hugging Face hub, ONNX or plain torch, with a model card.

    Before the folder is there, it is loaded by a fresh process without hardpair, on 64 real pictures at batches of 1, 7
    and 64. Unless its outputs are those of the encoder, nothing is written.

    Args:
        encoder: a run, ``"timm:NAME"``, a file of weights, or a folder that `hardpair export` wrote.
        to: "timm", "torchvision", "huggingface", "onnx" or "torch".
        out: the new folder.
        head: a folder that `hardpair classify` wrote; the export then gives logits whose softmax is calibrated.
        image_size: pixels that the encoder sees; as in training, or as the head was fitted, when not given.
        name: for a file of weights: the encoder it belongs to, if the file does not show it.
        data_root: where downloaded sets are kept, for the pictures of the check.
        threads: of the CPU; 0 leaves the choice to torch.
    """
    if to not in FORMS:
        raise UserError(f"to: there is no form {shown(to)}{nearest(str(to), get_args(Form))}")
    if to == "onnx":
        require_onnx()
    target = Path(out)
    _refuse_other(target)
    prepare_to_compute(threads)
    material = _material(os.fspath(encoder), head, image_size, name)
    facts = about(os.fspath(encoder), material.encoder.step)
    pictures = pictures_for(material, training_images(os.fspath(encoder)), Path(data_root))
    scratch = _scratch_beside(target)
    try:
        made = FORMS[to](material, scratch)
        _write_config(scratch, to, made, material, facts)
        checked = check_export(to, made, material, scratch, pictures)
        write_card(scratch, target.name, to, made, material, checked)
        _put_in_place(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Export(target, to, loading_from(target.name, made.lines), checked)


def _material(encoder: str, head: Folder | None, image_size: int | None, name: str) -> Material:
    """The encoder as the head knows it, where there is one."""
    if head is None:
        _warn_of_lost_head(Path(encoder))
        return Material(open_embedder(encoder, device=torch.device("cpu"), name=name, image_size=image_size))
    known = load_head(os.fspath(head))
    size = known.encoder["shown"] if image_size is None else image_size
    embedder = open_embedder(encoder, device=torch.device("cpu"), name=name, image_size=size)
    _require_fits(known, embedder, head)
    square = max(embedder.square, known.encoder["square"]) if image_size is None else embedder.square
    return Material(Embedder(embedder.encoder, embedder.source, square, size, embedder.device), known)


def _warn_of_lost_head(source: Path) -> None:
    if source.is_dir() and is_export(source) and read_export(source).head:
        log.warning("%s: its head is left out, so that the new export gives features; --head gives it one", source)


def _require_fits(head: LinearHead, embedder: Embedder, folder: Folder) -> None:
    if head.fingerprint != fingerprint(embedder.encoder):
        source = shown(head.encoder["source"])
        raise UserError(f"head: {folder}: belongs to another encoder ({source}); give that one, or fit another head")
    if head.encoder["shown"] != embedder.shown:
        was = head.encoder["shown"]
        raise UserError(f"image_size: the head was fitted on images of {was} px; leave it out, or fit another head")


def _refuse_other(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: is a file; give a folder")
    if target.is_dir() and any(target.iterdir()):
        raise UserError(f"{target}: is not empty; choose another folder, or delete it")


def _scratch_beside(target: Path) -> Path:
    """A folder on the same disk, so that it can be renamed."""
    parent = target.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name[:50]}.", suffix=".tmp", dir=parent))
        scratch.chmod(0o777 & ~_umask())
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error})") from error
    return scratch


def _umask() -> int:
    """What the user lets others do with new files; the one way to read it is to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_config(folder: Path, form: str, made: Made, material: Material, facts: dict[str, object]) -> None:
    """What readers of the form want to know, and what we do."""
    ours = {
        "form": form,
        "settings": material.settings,
        "step": material.encoder.step,
        "fingerprint": fingerprint(material.encoder),
        "square": material.embedder.square,
        "shown": material.size,
        "prefix": made.prefix,
        "head": list(made.head),
        "about": facts,
    }
    content = json.dumps({**made.config, OURS: ours}, indent=2)
    (folder / CONFIG).write_text(content + "\n", encoding="utf-8")


def _put_in_place(scratch: Path, target: Path) -> None:
    """To disk, then under its name at once; it replaces an empty folder, and nothing else."""
    for file in scratch.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    try:
        scratch.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error})") from error
