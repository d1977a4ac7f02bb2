"""Self-supervised methods, one file each. METHODS is the whole registry: a plain dict, which `add_method` extends."""

from hardpair.methods.byol import BYOL
from hardpair.methods.cmc import CMC
from hardpair.methods.cpc import CPC
from hardpair.methods.hnpm import HNPM
from hardpair.methods.infomin import InfoMin
from hardpair.methods.instdisc import InstDisc
from hardpair.methods.method import Method, Pairs
from hardpair.methods.moco import MoCo
from hardpair.methods.outside import MARK, load_method
from hardpair.methods.simclr import SimCLR
from hardpair.methods.simclrv2 import SimCLRv2
from hardpair.methods.simsiam import SimSiam

METHODS: dict[str, type[Method]] = {
    "hnpm": HNPM,
    "simclr": SimCLR,
    "simclrv2": SimCLRv2,
    "moco": MoCo,
    "byol": BYOL,
    "simsiam": SimSiam,
    "cmc": CMC,
    "cpc": CPC,
    "infomin": InfoMin,
    "instdisc": InstDisc,
}


def add_method(place: str) -> str:
    """Load the method that ``FILE.py:CLASS`` names and put it into METHODS, under the name of its class."""
    method = load_method(place)
    name = method.__name__
    METHODS[name] = method
    return name


def known_or_added(name: str) -> str:
    """A name of METHODS as it is; ``FILE.py:CLASS`` is loaded first."""
    return add_method(name) if MARK in name else name


__all__ = ["METHODS", "Method", "Pairs", "add_method", "known_or_added"]
