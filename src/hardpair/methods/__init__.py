"""Self-supervised methods, one file each. METHODS is the registry, a plain dict; `resolve_method` adds to it."""

from hardpair.errors import UserError
from hardpair.methods.byol import BYOL
from hardpair.methods.cmc import CMC
from hardpair.methods.cpc import CPC
from hardpair.methods.hnpm import HNPM
from hardpair.methods.infomin import InfoMin
from hardpair.methods.instdisc import InstDisc
from hardpair.methods.method import FILE_MARK, Method, Pairs, load_method
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
BUILT_IN = tuple(METHODS)


def resolve_method(name: str) -> str:
    """A name as it is; ``FILE.py:CLASS`` is loaded and put into METHODS, under the name of its class."""
    if FILE_MARK not in name:
        return name
    method = load_method(name)
    if method.__name__ in BUILT_IN:
        raise UserError(f"method: {name}: {method.__name__} is the name of a method of hardpair; rename the class")
    METHODS[method.__name__] = method
    return method.__name__


__all__ = ["METHODS", "Method", "Pairs", "resolve_method"]
