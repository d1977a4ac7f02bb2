"""Evaluation: receives an encoder and never learns which method trained it."""

from hardpair.evaluate.evaluate import evaluate_run
from hardpair.evaluate.knn import knn
from hardpair.evaluate.linear import linear
from hardpair.protocol_settings import Settings

__all__ = ["Settings", "evaluate_run", "knn", "linear"]
