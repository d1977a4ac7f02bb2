"""Encoders, heads, moving averages and memories: the parts methods are made of."""

from hardpair.models.encoder import DEPTHS, ColourStreams, Encoder, PatchGrid, build_encoder
from hardpair.models.heads import Classifier, build_head, mlp, set_norm_momentum
from hardpair.models.memory import Bank, Queue, average_into, averaged_copy
from hardpair.models.saved import (
    fingerprint,
    load_encoder,
    load_head_layer,
    save_classifier,
    save_encoder,
    save_head_layer,
    state_of,
)
from hardpair.models.synchronised import SynchronisedNorm, synchronise_norms
from hardpair.models.weights import load_elsewhere, load_weights, read_shape, read_weights

__all__ = [
    "DEPTHS",
    "Bank",
    "Classifier",
    "ColourStreams",
    "Encoder",
    "PatchGrid",
    "Queue",
    "SynchronisedNorm",
    "average_into",
    "averaged_copy",
    "build_encoder",
    "build_head",
    "fingerprint",
    "load_elsewhere",
    "load_encoder",
    "load_head_layer",
    "load_weights",
    "mlp",
    "read_shape",
    "read_weights",
    "save_classifier",
    "save_encoder",
    "save_head_layer",
    "set_norm_momentum",
    "state_of",
    "synchronise_norms",
]
