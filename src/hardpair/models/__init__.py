"""Encoders, heads and moving averages: the parts methods are made of."""

from hardpair.models.average import average_into, averaged_copy
from hardpair.models.encoder import Encoder, build_encoder
from hardpair.models.heads import build_head
from hardpair.models.saved import load_encoder, save_encoder

__all__ = ["Encoder", "average_into", "averaged_copy", "build_encoder", "build_head", "load_encoder", "save_encoder"]
