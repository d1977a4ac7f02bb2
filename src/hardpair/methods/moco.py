"""MoCo v2: a query must find its key among many keys of earlier batches.

A queue of keys makes the number of negatives independent of the batch; a slowly moving average of the encoder makes
the keys, so that old and new ones can be compared.

Paper:   Chen et al., "Improved Baselines with Momentum Contrastive Learning", 2020 (He et al., "MoCo", 2019).
Loss:    InfoNCE of the query's key against the queue; with ``symmetric`` also the other way round, summed.
Differs: published on eight devices, whose batch norms do not see each other and whose keys are shuffled among them;
         ``splits`` runs that many parts of the batch by themselves, on however many devices. The average moves after
         a step rather than before the next one, which is the same.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hardpair import distributed
from hardpair.errors import UserError, require_range
from hardpair.losses import info_nce
from hardpair.methods.method import Method
from hardpair.models import Encoder, Queue, average_into, averaged_copy, mlp
from hardpair.precision import to_float32
from hardpair.views import Draw, PolicyName, two_views


class MoCo(Method):
    """MoCo v2. The defaults are the paper's for ImageNet, on one device.

    Args:
        encoder: the encoder to train; the one that makes keys starts as its copy.
        head_hidden: width of the head's hidden layer; 0 takes the encoder's.
        head_outputs: width of queries and keys.
        view: augmentation of queries and keys.
        temperature: divides the similarities.
        queue: keys that are remembered.
        momentum: share of the old key encoder kept at each step.
        symmetric: let both views be queries; doubles the cost of a step.
        splits: parts of the batch that batch norm sees by themselves.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 0,
        head_outputs: int = 128,
        view: PolicyName = "moco",
        temperature: float = 0.2,
        queue: int = 65_536,
        momentum: float = 0.999,
        symmetric: bool = False,
        splits: int = 1,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        require_range("queue", queue, 1, 10_000_000)
        require_range("momentum", momentum, 0, 1)
        require_range("splits", splits, 1, 1024)
        features = encoder.num_features
        self.encoder = encoder
        self.head = mlp(features, head_hidden or features, head_outputs, batch_norm=False)
        self.averaged = averaged_copy(nn.Sequential(self.encoder, self.head))
        self.queue = Queue(queue, head_outputs)
        self.fresh: list[Tensor] = []  # keys of this step, for the queue once the step is done
        self.view, self.temperature = view, temperature
        self.momentum, self.symmetric, self.splits = momentum, symmetric, splits
        self.whole_batch_norm = splits == 1

    def prepare(self, pixels: Tensor) -> None:  # noqa: ARG002
        """The splits must be divisible among the processes that share a batch."""
        ranks = distributed.world_size()
        if self.splits > 1 and self.splits % ranks:
            raise UserError(f"splits: {self.splits} cannot be divided among {ranks} processes; give a multiple")

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views by one policy and, for splits, the order in which keys of the whole global batch are shuffled."""
        views = two_views(images, self.view, self.view, draw)
        if self.splits > 1:
            views.append(distributed.gather(draw.uniforms("shuffle", 1)[:, 0]).argsort())
        return views

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """InfoNCE of the first view's queries and the second's keys, and the reverse if symmetric."""
        first, second, *shuffle = views
        keys = [self._keys(second, *shuffle)]  # (N, D)
        if self.symmetric:
            keys.append(self._keys(first, *shuffle))
        loss, features = self._loss(first, keys[0])
        if self.symmetric:
            loss = loss + self._loss(second, keys[1])[0]
        self.fresh = keys
        return {"loss": loss, "features": features.detach()}

    def _loss(self, images: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        features = self._in_splits(self.encoder, images)
        loss = info_nce(self.head(features), keys, self.queue.keys, temperature=self.temperature)
        return loss, features

    @torch.no_grad()
    def _keys(self, images: Tensor, shuffle: Tensor | None = None) -> Tensor:
        """With splits, keys are shuffled into other splits than queries, so that batch norm cannot reveal the pairs."""
        if shuffle is None:
            return normalize(to_float32(self.averaged(images)), dim=1)
        mixed = self._in_splits(self.averaged, distributed.local_rows(distributed.gather(images)[shuffle]))
        return normalize(to_float32(distributed.local_rows(distributed.gather(mixed)[shuffle.argsort()])), dim=1)

    def _in_splits(self, module: nn.Module, images: Tensor) -> Tensor:
        return torch.cat([module(part) for part in images.chunk(max(1, self.splits // distributed.world_size()))])

    def after_step(self, progress: float) -> None:  # noqa: ARG002
        """The queue takes the new keys; the key encoder follows."""
        for keys in self.fresh:
            self.queue.push(keys)
        self.fresh = []
        average_into(self.averaged, self.encoder, self.head, keep=self.momentum)
