"""Training: one pretraining loop and what it stands on."""

from hardpair.train.own_photos import choose_recipe
from hardpair.train.parallel import pick_device
from hardpair.train.pretrain import check_run, pretrain, recipe_of
from hardpair.train.trainer import Outcome

__all__ = ["Outcome", "check_run", "choose_recipe", "pick_device", "pretrain", "recipe_of"]
