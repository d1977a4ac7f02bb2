"""CPC v2: predict patches of an image from the patches above them, among the patches of all images.

The image is cut into an overlapping grid and every patch is encoded by itself. A context network that sees no row
below its own predicts rows further down; the same in four directions. Layer norm, because batch norm would let
patches know of each other. Evaluators get the mean over the grid.

Paper:   Henaff et al., "Data-Efficient Image Recognition with Contrastive Predictive Coding", 2019.
Loss:    -log softmax of the product of prediction and target over all patches of the batch, mean over the rows
         predicted and the four directions.
Differs: patches overlap by half; colours are changed for a whole image and not for each patch; ``group`` may limit the
         negatives to the patches of a few images, since all patches of a batch are very many.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from hardpair import distributed
from hardpair.errors import UserError, require_range
from hardpair.methods.method import Method
from hardpair.models import Encoder, PatchGrid, build_encoder
from hardpair.precision import in_full_precision
from hardpair.views import POLICIES, Draw, PolicyName, augmented_view

IGNORED, FURTHEST = 2, 5  # rows: nearer ones share pixels with the patch that predicts, further ones are not predicted
BLOCKS = 5  # of the context network


class CPC(Method):
    """CPC v2. The defaults are those of its reproduction on CIFAR-10.

    Args:
        encoder: its depth, width and stem are those of the patch encoder.
        patch: side of a patch in pixels.
        context_hidden: width inside the context networks.
        head_outputs: width of predictions and targets.
        view: augmentation of the image.
        group: images whose patches are each other's negatives; 0 takes the whole batch.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        patch: int = 8,
        context_hidden: int = 256,
        head_outputs: int = 64,
        view: PolicyName = "cpc",
        group: int = 0,
    ) -> None:
        super().__init__()
        require_range("patch", patch, 4, 512)
        require_range("context_hidden", context_hidden, 1, 65_536)
        require_range("group", group, 0, 1_000_000)
        self.encoder = build_encoder(**{**encoder.settings, "patch": patch})
        features = self.encoder.num_features
        self.directions = nn.ModuleList(Direction(features, context_hidden, head_outputs) for _ in range(4))
        self.view, self.group = view, group

    def prepare(self, pixels: Tensor) -> None:
        """The grid must have a row to predict from and the furthest row predicted."""
        size = pixels.shape[-1]
        if (side := self._grid.side(size)) <= FURTHEST:
            raise UserError(
                f"image_size: cpc cuts {size} px into {side} x {side} patches of {self._grid.patch} px and needs "
                f"{FURTHEST + 1} x {FURTHEST + 1}; give larger images or a smaller patch"
            )

    @property
    def _grid(self) -> PatchGrid:
        assert isinstance(self.encoder.trunk, PatchGrid)
        return self.encoder.trunk

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """One view; the patches are the views of it."""
        return [augmented_view(images, POLICIES[self.view], draw.whole())]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """The mean loss of four directions."""
        grid = self.encoder.in_parts(self._grid.grid, views[0])  # (N, F, H, W)
        if distributed.world_size() > 1 and self.group and len(grid) % self.group:
            raise UserError(
                f"group: {self.group} does not divide the {len(grid)} images that each process has of a batch"
            )
        turned = [torch.rot90(grid, quarter, (2, 3)) for quarter in range(4)]
        losses = [look(view, self.group) for look, view in zip(self.directions, turned, strict=True)]
        return {"loss": torch.stack(losses).mean(), "features": grid.mean(dim=(2, 3)).detach()}


class Direction(nn.Module):
    """Context, targets and predictions for one way of looking through a grid, from the top down."""

    def __init__(self, features: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.context = nn.Sequential(*[ContextBlock(features, hidden) for _ in range(BLOCKS)], nn.ReLU())
        self.target = nn.Conv2d(features, outputs, 1)
        self.predict = nn.ModuleList(nn.Conv2d(features, outputs, 1) for _ in range(IGNORED, FURTHEST))

    def forward(self, grid: Tensor, group: int) -> Tensor:
        """InfoNCE of every prediction, within groups of images, 0 for the whole batch: grid (N, F, H, W) → scalar."""
        context, targets = self.context(grid), self.target(grid)  # (N, F, H, W), (N, D, H, W)
        if group:
            target_groups, first = targets.split(group), 0
        else:
            target_groups = (distributed.gather(targets, gradient=True),)
            first = distributed.rank() * len(grid)  # where this process's images are among them
        losses = []
        for below, predict in enumerate(self.predict, start=IGNORED + 1):
            predictions = predict(context[:, :, :-below]) * 0.1  # (N, D, H - below, W): for the row so far below
            parts = zip(predictions.split(group or len(grid)), target_groups, strict=True)
            losses += [self._loss(prediction, target, below, first) for prediction, target in parts]
        return torch.stack(losses).mean()

    @staticmethod
    @in_full_precision
    def _loss(predictions: Tensor, targets: Tensor, below: int, first: int) -> Tensor:
        count, _, height, width = targets.shape
        place = torch.arange(count * height * width, device=targets.device).view(count, height, width)
        logits = _rows(predictions) @ _rows(targets).T  # all patches of the group
        return cross_entropy(logits, place[first : first + len(predictions), below:].flatten())


class ContextBlock(nn.Module):
    """A residual block whose every position sees its neighbours, itself and the row above; never a row below."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(features, hidden, 1)
        self.across = nn.Conv2d(hidden, hidden, (1, 3), padding=(0, 1))
        self.down = nn.Conv2d(hidden, hidden, (2, 1))
        self.widen = nn.Conv2d(hidden, features, 1)

    def forward(self, grid: Tensor) -> Tensor:
        """(N, F, H, W) → the same."""
        inner = self.across(self.narrow(grid).relu())
        inner = self.down(pad(inner, (0, 0, 1, 0))).relu()  # an empty row on top
        added: Tensor = grid + self.widen(inner)
        return added


def _rows(grid: Tensor) -> Tensor:
    """(N, D, H, W) → (N · H · W, D)."""
    return grid.permute(0, 2, 3, 1).flatten(0, 2)
