"""Multi-crop: further views that are smaller, and so cheaper, than the two of a method.

Only large views are targets. Every other view of an image, large or small, must agree with each of them.

Paper:   Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (SwAV), 2020.
Differs: small views have the policy of the first large one, crop scale included; published ones are crops of less.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hardpair.errors import require_range
from hardpair.models import Encoder
from hardpair.views import POLICIES, Draw, PolicyName, augmented_view

MOST = 16


class SmallViews:
    """How many there are, and how large.

    Args:
        count: of small views; 0 leaves a method as it was published.
        size: their side as a share of that of the large views.
    """

    def __init__(self, count: int, size: float) -> None:
        require_range("small_views", count, 0, MOST)
        require_range("small_size", size, 0.1, 1)
        self.count, self.size = count, size

    def of(self, images: Tensor, policy: PolicyName, draw: Draw, encoder: Encoder, large: Tensor) -> list[Tensor]:
        """Views of uint8 images (N, 3, H, W), as large as the encoder takes them."""
        smaller = draw.at(encoder.nearest_size(self.size * large.shape[-1]))
        return [
            augmented_view(images, POLICIES[policy], smaller.within(f"small{number}")) for number in range(self.count)
        ]


def pairs_with_large(first: Tensor, second: Tensor, small: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """All pairs of views that a large one is part of: outputs of the two large views, and of the small ones."""
    return [(first, second), *((large, view) for view in small for large in (first, second))]


def others(views: Sequence[Tensor], target: int) -> list[Tensor]:
    """All views but that of the target, of which there are two: 0 and 1."""
    return [*views[:target], *views[target + 1 :]]


def mean(losses: Sequence[Tensor]) -> Tensor:
    """Of the losses of several pairs."""
    return torch.stack(list(losses)).mean() if len(losses) > 1 else losses[0]
