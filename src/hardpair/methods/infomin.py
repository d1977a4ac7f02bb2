"""InfoMin Aug: MoCo with views that share as little as the task allows.

Stronger augmentation (RandAugment on top of SimCLR's colours) removes what two views share by accident; a second
query, made of nine shuffled patches of the image (jigsaw), must find the same key.

Paper:   Tian et al., "What Makes for Good Views for Contrastive Learning?", 2020.
Loss:    (1 - b) InfoNCE of the view's query + b InfoNCE of the patches' query, against one key and one queue.
Differs: RandAugment's magnitudes scale with the image; patches are 3/4 of a ninth's side, as published at 255 px;
         `splits` stands for the published eight devices, as in MoCo.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hardpair.errors import UserError, require_range
from hardpair.losses import info_nce
from hardpair.methods.method import Method
from hardpair.methods.splits import Splits
from hardpair.models import Encoder, Queue, average_into, averaged_copy, mlp
from hardpair.precision import to_float32
from hardpair.views import POLICIES, Draw, PolicyName, augmented_view, two_views

CELLS = 3  # a side of the jigsaw
SMALLEST_PATCH = 8  # pixels


class InfoMin(Method):
    """InfoMin Aug. The defaults are the paper's for ImageNet.

    Args:
        encoder: the encoder to train; the one that makes keys starts as its copy.
        head_hidden: width of the heads' hidden layer; 0 takes the encoder's.
        head_outputs: width of queries and keys.
        view: augmentation of queries and keys.
        temperature: divides the similarities.
        queue: keys that are remembered.
        momentum: share of the old key encoder kept at each step.
        jigsaw: weight b of the patches' query; 0 leaves it out.
        jigsaw_size: side of the view that the patches are cut from, as a share of the image's.
        splits: parts of the batch that batch norm sees by themselves.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 0,
        head_outputs: int = 128,
        view: PolicyName = "infomin",
        temperature: float = 0.15,
        queue: int = 65_536,
        momentum: float = 0.999,
        jigsaw: float = 0.5,
        jigsaw_size: float = 1.0,
        splits: int = 1,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        require_range("queue", queue, 1, 10_000_000)
        require_range("momentum", momentum, 0, 1)
        require_range("jigsaw", jigsaw, 0, 1)
        require_range("jigsaw_size", jigsaw_size, 0.1, 1)
        widths = (encoder.num_features, head_hidden or encoder.num_features, head_outputs)
        self.encoder = encoder
        self.head = mlp(*widths, batch_norm=False)
        self.averaged = averaged_copy(nn.Sequential(self.encoder, self.head))
        if jigsaw:
            self.patch_head = mlp(*widths, batch_norm=False)
            self.join = nn.Linear(CELLS * CELLS * head_outputs, head_outputs)
        self.queue = Queue(queue, head_outputs)
        self.fresh: list[Tensor] = []  # keys of this step, for the queue once the step is done
        self.view, self.temperature, self.momentum = view, temperature, momentum
        self.jigsaw, self.jigsaw_size = jigsaw, jigsaw_size
        self.splits = Splits(splits)
        self.whole_batch_norm = splits == 1

    def prepare(self, pixels: Tensor) -> None:
        """Images must be large enough for the patches of the jigsaw, and splits divisible among the processes."""
        self.splits.require_divisible()
        size = self._side(pixels)
        if self.jigsaw and _patch(size) < SMALLEST_PATCH:
            raise UserError(
                f"image_size: infomin's jigsaw of {size} px has patches of {_patch(size)} px and needs "
                f"{SMALLEST_PATCH}; give larger images or --jigsaw 0"
            )

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views by one policy, the order of the keys for splits, and nine shuffled patches for the jigsaw."""
        views = [*two_views(images, self.view, self.view, draw), *self.splits.shuffle(draw)]
        if self.jigsaw:
            whole = augmented_view(images, POLICIES["jigsaw"], draw.at(self._side(images)).within("jigsaw"))
            views.append(shuffled_patches(whole, draw.uniforms("patches", 3 * CELLS * CELLS)))
        return views

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """The view's query and the patches' query against the other view's key."""
        shuffle = views[2:3] if self.splits.count > 1 else []
        with torch.no_grad():
            keys = normalize(to_float32(self.splits.shuffled(self.averaged, views[1], shuffle)), dim=1)  # (N, D)
        features = self.splits.split(self.encoder, views[0])  # (N, F)
        loss = info_nce(self.head(features), keys, self.queue.keys, temperature=self.temperature)
        if self.jigsaw:
            query = self._join_patches(views[-1])  # (N, D)
            other = info_nce(query, keys, self.queue.keys, temperature=self.temperature)
            loss = (1 - self.jigsaw) * loss + self.jigsaw * other
        self.fresh = [keys]
        return {"loss": loss, "features": features.detach()}

    def _side(self, images: Tensor) -> int:
        return round(self.jigsaw_size * images.shape[-1])

    def _join_patches(self, patches: Tensor) -> Tensor:
        outputs = self.patch_head(self.splits.split(self.encoder, patches.flatten(0, 1)))  # (9 N, D)
        joined: Tensor = self.join(outputs.view(len(patches), -1))
        return joined

    def after_step(self, progress: float) -> None:  # noqa: ARG002
        """The queue takes the new keys; the key encoder follows."""
        for keys in self.fresh:
            self.queue.push(keys)
        self.fresh = []
        average_into(self.averaged, self.encoder, self.head, keep=self.momentum)


def _patch(size: int) -> int:
    return round(size // CELLS * 0.75)


def shuffled_patches(view: Tensor, uniforms: Tensor) -> Tensor:
    """A patch from a random place of each of 3 x 3 cells, in random order: (N, 3, S, S) → (N, 9, 3, P, P)."""
    cell, patch = view.shape[-1] // CELLS, _patch(view.shape[-1])
    order, shifts = uniforms[:, :9].argsort(dim=1), (uniforms[:, 9:] * (cell - patch + 1)).long()
    top = order // CELLS * cell + shifts[:, :9]  # (N, 9)
    left = order % CELLS * cell + shifts[:, 9:]
    span = torch.arange(patch, device=view.device)
    rows = (top[..., None] + span)[..., None]  # (N, 9, P, 1)
    columns = (left[..., None] + span)[..., None, :]  # (N, 9, 1, P)
    images = torch.arange(len(view), device=view.device)[:, None, None, None]
    return view.permute(0, 2, 3, 1)[images, rows, columns].permute(0, 1, 4, 2, 3)
