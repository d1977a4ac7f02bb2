"""The recipe that `hardpair pretrain --data FOLDER` begins with; train/own_photos.py chooses sizes and length."""

import dataclasses

from hardpair.recipes import demo
from hardpair.recipes.recipe import Recipe


def photos() -> Recipe:
    """HNPM on your own photos; sizes, encoder and length are chosen for the photos, the machine and the time there is.

    Command:  hardpair pretrain --data FOLDER
    Cost:     about an hour on a CPU; --hours gives another time.
    Score:    not run here; nothing is published. These values are what the choice begins with.
    """
    return dataclasses.replace(demo.hnpm(), name="photos", batch_size=160, learning_rate=6e-3, precision="auto")
