"""Evaluation: receives an encoder and never learns which method made it."""

from hardpair.evaluate.knn import knn
from hardpair.evaluate.linear import linear
from hardpair.evaluate.run import Settings, evaluate_run

__all__ = ["Settings", "evaluate_run", "knn", "linear"]
