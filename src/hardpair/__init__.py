"""hardpair: learn image representations without labels by hard negative pair mining, and prove how good they are."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpair.api import Run, open_run, pretrain
    from hardpair.embeddings.classify import classify
    from hardpair.embeddings.clean import clean
    from hardpair.embeddings.embed import embed
    from hardpair.embeddings.embedding import Embedding, open_embedding
    from hardpair.embeddings.map import map  # noqa: A004 - every verb is a function of its name
    from hardpair.embeddings.search import search
    from hardpair.embeddings.select import select
    from hardpair.errors import UserError
    from hardpair.exporters.export import export
    from hardpair.losses import HNPMLoss, dissimilarity, hard_negatives, hnpm_loss, normalise
    from hardpair.methods import METHODS, Method
    from hardpair.models import build_encoder, load_encoder

_HOME = {
    "api": ("Run", "open_run", "pretrain"),
    "embeddings.classify": ("classify",),
    "embeddings.clean": ("clean",),
    "embeddings.embed": ("embed",),
    "embeddings.embedding": ("Embedding", "open_embedding"),
    "embeddings.map": ("map",),
    "embeddings.search": ("search",),
    "embeddings.select": ("select",),
    "errors": ("UserError",),
    "exporters.export": ("export",),
    "losses": ("HNPMLoss", "dissimilarity", "hard_negatives", "hnpm_loss", "normalise"),
    "methods": ("METHODS", "Method"),
    "models": ("build_encoder", "load_encoder"),
}
__all__ = [
    "METHODS",
    "Embedding",
    "HNPMLoss",
    "Method",
    "Run",
    "UserError",
    "build_encoder",
    "classify",
    "clean",
    "dissimilarity",
    "embed",
    "export",
    "hard_negatives",
    "hnpm_loss",
    "load_encoder",
    "map",
    "normalise",
    "open_embedding",
    "open_run",
    "pretrain",
    "search",
    "select",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import torch only when one of the names above is used, so that help and reports start at once."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"hardpair.{module}"), name)
    raise AttributeError(f"module 'hardpair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
