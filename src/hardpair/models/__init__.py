"""Encoders, heads, moving averages and memories: the parts methods are made of."""

from hardpair.models.average import average_into, averaged_copy
from hardpair.models.colour_streams import ColourStreams
from hardpair.models.encoder import Encoder, build_encoder
from hardpair.models.heads import build_head, mlp
from hardpair.models.memory import Bank, Queue
from hardpair.models.patch_grid import PatchGrid
from hardpair.models.saved import load_encoder, save_encoder

__all__ = [
    "Bank",
    "ColourStreams",
    "Encoder",
    "PatchGrid",
    "Queue",
    "average_into",
    "averaged_copy",
    "build_encoder",
    "build_head",
    "load_encoder",
    "mlp",
    "save_encoder",
]
