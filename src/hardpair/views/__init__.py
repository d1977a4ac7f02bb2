"""Views: batches of uint8 images → normalised float views, each image with its own random parameters."""

from hardpair.views.draw import Draw
from hardpair.views.policies import POLICIES, Policy, augmented_view, plain_view

__all__ = ["POLICIES", "Draw", "Policy", "augmented_view", "plain_view"]
