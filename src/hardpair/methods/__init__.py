"""Self-supervised methods, one file each. METHODS is the whole registry."""

from hardpair.methods.hnpm import HNPM
from hardpair.methods.method import Method, Pairs

METHODS: dict[str, type[Method]] = {
    "hnpm": HNPM,
}

__all__ = ["HNPM", "METHODS", "Method", "Pairs"]
