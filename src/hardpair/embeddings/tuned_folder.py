"""The folder of a head that holds a fine-tuned network, too: its files, and the vectors of the pictures under it."""

import shutil
from pathlib import Path

from hardpair.embeddings.embedding import Embedding
from hardpair.errors import UserError
from hardpair.files import read_json
from hardpair.models import fingerprint, load_encoder

NAME = "finetuned"  # as ABOUT has it
VECTORS = "embedding"  # folder inside
ENCODER, ABOUT = ("encoder.json", "encoder.safetensors"), "recipe.json"


def refuse_other_encoder(folder: Path, embedding: Embedding) -> None:
    """Before any work: refuse to write over an encoder that was not fine-tuned here, or that made these vectors."""
    if not any((folder / name).exists() for name in (*ENCODER, ABOUT)):
        return
    if not _is_ours(folder):
        raise UserError(f"{folder}: holds another encoder; choose another folder to save to")
    if _made(folder, embedding):
        raise UserError(f"{folder}: holds the network that made these vectors; choose another folder to save to")


def forget_network(folder: Path, embedding: Embedding) -> None:
    """Remove the network of an earlier head, unless it made these vectors: the new head does not belong to it."""
    if _is_ours(folder) and not _made(folder, embedding):
        shutil.rmtree(folder / VECTORS, ignore_errors=True)
        for name in (*ENCODER, ABOUT):  # what says whose it is goes last
            (folder / name).unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    try:
        return bool(read_json(folder / ABOUT)["name"] == NAME)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _made(folder: Path, embedding: Embedding) -> bool:
    try:
        return fingerprint(load_encoder(folder)) == embedding.encoder
    except UserError:  # half written, when a fine-tuning was stopped
        return False
