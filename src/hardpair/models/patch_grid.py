"""An encoder of patches: the image is cut into an overlapping grid, each patch is encoded on its own (CPC)."""

from torch import Tensor, nn


class PatchGrid(nn.Module):
    """Images (N, 3, H, W) → the mean over a grid of patch features (N, D). Patches overlap by half."""

    def __init__(self, trunk: nn.Module, patch: int) -> None:
        super().__init__()
        self.trunk, self.patch = trunk, patch

    def side(self, image_size: int) -> int:
        """Patches along a side of an image."""
        return max(0, (image_size - self.patch) // (self.patch // 2) + 1)

    def grid(self, images: Tensor) -> Tensor:
        """One feature vector a patch: (N, D, rows, columns)."""
        stride = self.patch // 2
        cut = images.unfold(2, self.patch, stride).unfold(3, self.patch, stride)  # (N, 3, rows, columns, P, P)
        count, channels, rows, columns = cut.shape[:4]
        patches = cut.permute(0, 2, 3, 1, 4, 5).reshape(-1, channels, self.patch, self.patch)
        features: Tensor = self.trunk(patches)
        return features.view(count, rows, columns, -1).permute(0, 3, 1, 2)

    def forward(self, images: Tensor) -> Tensor:
        """The mean of the grid."""
        return self.grid(images).mean(dim=(2, 3))
