"""Self-supervised methods, one file each. METHODS is the whole registry."""

from hardpair.methods.byol import BYOL
from hardpair.methods.cmc import CMC
from hardpair.methods.cpc import CPC
from hardpair.methods.hnpm import HNPM
from hardpair.methods.infomin import InfoMin
from hardpair.methods.instdisc import InstDisc
from hardpair.methods.method import Method, Pairs
from hardpair.methods.moco import MoCo
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

__all__ = ["METHODS", "Method", "Pairs"]
