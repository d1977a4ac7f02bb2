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

from hardpair.errors import require_range
from hardpair.losses import info_nce
from hardpair.methods.method import Method
from hardpair.methods.small_views import SmallViews, mean, others
from hardpair.methods.splits import Splits
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
        small_views: further, smaller views; each is a query for the same key.
        small_size: side of a small view as a share of that of the others.
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
        small_views: int = 0,
        small_size: float = 2 / 3,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        require_range("queue", queue, 1, 10_000_000)
        require_range("momentum", momentum, 0, 1)
        features = encoder.num_features
        self.encoder = encoder
        self.head = mlp(features, head_hidden or features, head_outputs, batch_norm=False)
        self.averaged = averaged_copy(nn.Sequential(self.encoder, self.head))
        self.queue = Queue(queue, head_outputs)
        self.fresh: list[Tensor] = []  # keys of this step, for the queue once the step is done
        self.view, self.temperature = view, temperature
        self.momentum, self.symmetric = momentum, symmetric
        self.splits, self.small = Splits(splits), SmallViews(small_views, small_size)
        self.whole_batch_norm = splits == 1

    def prepare(self, pixels: Tensor) -> None:  # noqa: ARG002
        """The splits must be divisible among the processes that share a batch."""
        self.splits.require_divisible()

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views by one policy, small ones, and, for splits, the order in which keys are shuffled."""
        pair = two_views(images, self.view, self.view, draw)
        return [*pair, *self.small.of(images, self.view, draw, self.encoder, pair[0]), *self.splits.shuffle(draw)]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """InfoNCE of the first view's queries and the second's keys, and the reverse if symmetric."""
        views, shuffle = views[: 2 + self.small.count], views[2 + self.small.count :]
        keys = {target: self._keys(views[target], shuffle) for target in ((1, 0) if self.symmetric else (1,))}
        shown = views if self.symmetric else others(views, 1)  # the key's view is no query of its own
        features = [self.splits.split(self.encoder, view) for view in shown]  # (N, F) each
        queries = [self.head(rows) for rows in features]  # (N, D) each
        ways = [
            mean([self._loss(query, key) for query in (others(queries, target) if self.symmetric else queries)])
            for target, key in keys.items()
        ]
        self.fresh = list(keys.values())
        return {"loss": sum(ways[1:], ways[0]), "features": features[0].detach()}

    def _loss(self, queries: Tensor, keys: Tensor) -> Tensor:
        return info_nce(queries, keys, self.queue.keys, temperature=self.temperature)

    @torch.no_grad()
    def _keys(self, images: Tensor, shuffle: list[Tensor]) -> Tensor:
        return normalize(to_float32(self.splits.shuffled(self.averaged, images, shuffle)), dim=1)

    def after_step(self, progress: float) -> None:  # noqa: ARG002
        """The queue takes the new keys; the key encoder follows."""
        for keys in self.fresh:
            self.queue.push(keys)
        self.fresh = []
        average_into(self.averaged, self.encoder, self.head, keep=self.momentum)
