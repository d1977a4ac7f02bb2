"""Training: one pretraining loop and what it stands on."""

from hardpair.train.parallel import pick_device
from hardpair.train.pretrain import pretrain
from hardpair.train.trainer import Outcome

__all__ = ["Outcome", "pick_device", "pretrain"]
