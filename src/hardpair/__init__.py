"""hardpair: learn image representations without labels by hard negative pair mining, and prove how good they are."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpair.methods import METHODS
    from hardpair.models import build_encoder, load_encoder

__all__ = ["METHODS", "build_encoder", "load_encoder"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import torch only when one of the names above is asked for, so that help and reports start at once."""
    if name == "METHODS":
        from hardpair.methods import METHODS

        return METHODS
    if name in __all__:
        from hardpair import models

        return getattr(models, name)
    raise AttributeError(f"module 'hardpair' has no attribute {name!r}")
