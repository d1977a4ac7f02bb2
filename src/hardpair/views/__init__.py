"""Views: batches of uint8 images → normalised float views, each image with its own random parameters."""

from hardpair.views.draw import Draw
from hardpair.views.policies import POLICIES, Policy, PolicyName
from hardpair.views.view import augmented_view, compile_kernels, plain_view, two_views

__all__ = ["POLICIES", "Draw", "Policy", "PolicyName", "augmented_view", "compile_kernels", "plain_view", "two_views"]
