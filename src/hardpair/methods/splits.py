"""Shuffled batch norm: parts of the batch that batch norm sees by themselves, keys in other parts than their queries.

Published on eight devices, whose batch norms do not see each other. Otherwise statistics that a query shares with its
key give the pair away (He et al., "MoCo", 2019).
"""

import torch
from torch import Tensor, nn

from hardpair import distributed
from hardpair.errors import UserError, require_range
from hardpair.views import Draw


class Splits:
    """How many parts; 1 is plain batch norm, of the whole batch and in one order.

    Args:
        count: of parts, of the batch of all processes.
    """

    def __init__(self, count: int) -> None:
        require_range("splits", count, 1, 1024)
        self.count = count

    def require_divisible(self) -> None:
        """The splits must be divisible among the processes that share a batch."""
        ranks = distributed.world_size()
        if self.count > 1 and self.count % ranks:
            raise UserError(f"splits: {self.count} cannot be divided among {ranks} processes; give a multiple")

    def shuffle(self, draw: Draw) -> list[Tensor]:
        """The order in which keys of the whole global batch are shuffled; none without splits."""
        return [distributed.gather(draw.uniforms("shuffle", 1)[:, 0]).argsort()] if self.count > 1 else []

    def split(self, module: nn.Module, images: Tensor) -> Tensor:
        """Outputs of a module that sees one part after the other."""
        return torch.cat([module(part) for part in images.chunk(max(1, self.count // distributed.world_size()))])

    def shuffled(self, module: nn.Module, images: Tensor, shuffle: list[Tensor]) -> Tensor:
        """As `split`, with the images in another order on the way."""
        if not shuffle:
            outputs: Tensor = module(images)
            return outputs
        (order,) = shuffle
        mixed = self.split(module, distributed.local_rows(distributed.gather(images)[order]))
        return distributed.local_rows(distributed.gather(mixed)[order.argsort()])
