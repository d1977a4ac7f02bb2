"""Encoders: ResNets of any depth and width (resnets.py), alone, as two colour streams (CMC), or on patches (CPC).

And any timm model by its name there (timm_encoders.py).
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hardpair.errors import UserError, require_range
from hardpair.models import timm_encoders
from hardpair.models.narrow_strides import guard_strides
from hardpair.pixels import MEAN, STD
from hardpair.precision import Precision, autocast, to_float32

DEPTHS: dict[str, tuple[bool, tuple[int, int, int, int]]] = {  # bottlenecks or basic blocks, and how many per stage
    "resnet10": (False, (1, 1, 1, 1)),
    "resnet14": (True, (1, 1, 1, 1)),
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet26": (True, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
    "resnet152": (True, (3, 8, 36, 3)),
    "resnet200": (True, (3, 24, 36, 3)),
}


class Encoder(nn.Module):
    """(N, 3, H, W) normalised images → (N, num_features). Remembers the settings that rebuild it.

    Images come normalised by ImageNet's mean and standard deviation. A trunk that was trained with another ``mean`` and
    ``std``, in its settings, gets what it knows.
    """

    scale: Tensor | None
    shift: Tensor | None

    def __init__(self, trunk: nn.Module, num_features: int, settings: dict[str, Any], *, patch_side: int = 1) -> None:
        super().__init__()
        guard_strides(trunk)
        self.trunk = trunk
        self.settings = settings
        self.num_features = num_features
        self.patch_side = patch_side  # pixels that a view's side must be a multiple of
        scale, shift = _renormalisation(settings)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)
        self.step = 0  # of pretraining, when it was saved
        self.origin = ""  # where its first weights come from, and how well they fitted; nothing if they are random
        self.precision: Precision = "float32"  # of its arithmetic in evaluation; training sets it for the heads too
        self.micro_batch = 0  # images at a time in training; 0 is all of them

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features, float32 under autocast too."""
        if self.scale is not None and self.shift is not None:
            images = torch.addcmul(self.shift, images, self.scale)
        with autocast(self.precision, images.device):
            return self.in_parts(self.trunk, images)

    def nearest_size(self, pixels: float) -> int:
        """The view size nearest to so many pixels that patches divide."""
        return max(1, round(pixels / self.patch_side)) * self.patch_side

    def require_sizes(self, sizes: set[int], *, note: str = "") -> None:
        """Refuse images that it cannot take, before any work; ResNets of whole images take any."""
        name, patch = self.settings["name"], self.settings.get("patch", 0)
        if name not in DEPTHS:
            timm_encoders.require_view_sizes(name, self.settings["image_size"], sizes, note=note)
        if small := [size for size in sizes if size < patch]:
            raise UserError(f"image_size: {small[0]} px are less than a patch of this encoder; give {patch} or more")

    def together(self, views: list[Tensor]) -> Tensor:
        """Features of several views, one after the other: batch norm sees all views at once, or a part of one."""
        if 0 < self.micro_batch < len(views[0]):  # then a copy of all views would only take memory
            return torch.cat([self(view) for view in views])
        features: Tensor = self(torch.cat(views))
        return features

    def in_parts(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Outputs of the trunk, or of a part of it, for at most ``micro_batch`` images at a time, in parts as equal.

        What the backward needs of a part is not kept but computed again when its turn comes, so that memory holds one
        part at a time, and the loss still sees the outputs of all. Batch norm sees a part by itself.
        """
        if not 0 < self.micro_batch < len(images):
            return to_float32(network(images))
        parts = images.tensor_split(math.ceil(len(images) / self.micro_batch))
        if not torch.is_grad_enabled():
            return torch.cat([to_float32(network(part)) for part in parts])
        outputs = [checkpoint(network, part, use_reentrant=False, context_fn=self._twice) for part in parts]
        return torch.cat([to_float32(part) for part in outputs])

    def _twice(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Around the two forwards of a part; only the first changes statistics of batch norm."""
        return nullcontext(), self._unchanged_statistics()

    @contextmanager
    def _unchanged_statistics(self) -> Iterator[None]:
        buffers = list(self.buffers())
        before = [buffer.clone() for buffer in buffers]
        try:
            yield
        finally:  # the second forward ends early, by an exception, once it has what the backward needs
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)


def _renormalisation(settings: dict[str, Any]) -> tuple[Tensor | None, Tensor | None]:
    """From images normalised by our mean and deviation to those of the settings: a factor and a summand."""
    if "mean" not in settings:
        return None, None
    mean, std = torch.tensor(settings["mean"]), torch.tensor(settings["std"])
    scale, shift = torch.tensor(STD) / std, (torch.tensor(MEAN) - mean) / std
    return scale[:, None, None], shift[:, None, None]


def build_encoder(
    name: str,
    *,
    width: float = 1,
    sk: bool = False,
    small_images: bool = False,
    colour_streams: bool = False,
    patch: int = 0,
    image_size: int = 0,
    drop_path: float = 0.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    zero_init: bool = False,
) -> Encoder:
    """A freshly initialised ResNet, ``"resnet50"`` say, or any model of timm, ``"vit_small_patch16_224"`` say.

    ``width`` multiplies every convolution's channels, the stem's too (SimCLR's "2x"; a fraction makes a small net).
    ``sk`` gives the bottlenecks selective kernels in SimCLRv2's form.
    ``small_images`` replaces the stem by one 3x3 convolution of stride 1 without pooling, as is usual below 65 px.
    ``colour_streams`` makes two ResNets of half the width, one for luminance and one for colour (CMC).
    ``patch`` applies the ResNet, with layer norm, to overlapping patches of that side and averages (CPC).
    ``zero_init`` starts the last norm of each residual branch at zero.

    The six above are for ResNets; the next two for timm's models.
    ``image_size`` is that of the views, for position embeddings; 0 is the size a model was published with.
    ``drop_path`` is the rate of stochastic depth, in models that have it.

    ``mean`` and ``std`` are those of the images that the weights were trained with, if not ImageNet's.
    """
    normalised = {"mean": list(mean), "std": list(std)} if mean else {}
    if name not in DEPTHS:
        timm_encoders.require_name(name)
        if colour_streams or patch:
            raise UserError(f"encoder: the method needs a ResNet of its own making and cannot use {name}; try resnet18")
        if width != 1 or sk or small_images or zero_init:
            fields = "width, sk, small_images and zero_init"
            raise UserError(f"encoder: {fields} are for ResNets; leave them out with {name}")
        return _timm_encoder(name, image_size, drop_path, normalised)
    bottlenecks, layers = _require_resnet(name, width, sk, colour_streams=colour_streams, patch=patch)
    if drop_path:
        raise UserError("drop_path: the paper's ResNets have no stochastic depth; leave it out")
    from hardpair.models import resnets  # here, since timm takes two seconds to import

    settings = {"name": name, "width": width, "small_images": small_images, **normalised}
    settings |= {"zero_init": True} if zero_init else {}  # else the shape is written as it always was
    if sk:
        trunk = resnets.selective_resnet(layers, width, small_images=small_images, zero_init=zero_init)
        return Encoder(trunk, trunk.num_features, {**settings, "sk": True})
    plain = functools.partial(
        resnets.plain_resnet, layers, bottlenecks=bottlenecks, small_images=small_images, zero_init=zero_init
    )
    if colour_streams:
        luminance, colour = (plain(width / 2, inputs=inputs) for inputs in (1, 2))
        features = luminance.num_features + colour.num_features
        return Encoder(ColourStreams(luminance, colour), features, {**settings, "colour_streams": True})
    if patch:
        trunk = plain(width, layer_norm=True)
        return Encoder(PatchGrid(trunk, patch), trunk.num_features, {**settings, "patch": patch})
    trunk = plain(width)
    return Encoder(trunk, trunk.num_features, settings)


def _require_resnet(
    name: str, width: float, sk: bool, *, colour_streams: bool, patch: int
) -> tuple[bool, tuple[int, int, int, int]]:
    """Its kind of blocks and their numbers, once its settings are known to go together."""
    require_range("width", width, 1 / 8 if colour_streams else 1 / 16, 4)
    if patch:
        require_range("patch", patch, 2, 1024)
    if sk and (colour_streams or patch):
        raise UserError("sk: selective kernels go with whole images in colour, not with colour streams or patches")
    bottlenecks, layers = DEPTHS[name]
    if sk and not bottlenecks:
        raise UserError(f"sk: selective kernels replace the middle of a bottleneck, and {name} has none; try resnet50")
    return bottlenecks, layers


def _timm_encoder(name: str, image_size: int, drop_path: float, normalised: dict[str, Any]) -> Encoder:
    """Its settings leave out stochastic depth, which is no part of what was learned."""
    size = image_size or timm_encoders.published_size(name)
    trunk = timm_encoders.timm_trunk(name, image_size=size, drop_path=drop_path)
    settings = {"name": name, "image_size": size, **normalised}
    features = timm_encoders.num_features(trunk)
    return Encoder(trunk, features, settings, patch_side=timm_encoders.patch_side(trunk))


# YDbDr, the colour space of CMC's improved form, and its mean and standard deviation on ImageNet. It is linear in
# RGB, so that undoing our normalisation, changing the space and normalising anew are one affine map.
YDBDR = ((0.299, 0.587, 0.114), (-0.450, -0.883, 1.333), (-1.333, 1.116, 0.217))
YDBDR_MEAN = (0.457, -0.082, -0.052)
YDBDR_STD = (0.5, 1.331, 1.333)


class ColourStreams(nn.Module):
    """Normalised RGB (N, 3, H, W) → features of luminance and of colour, side by side (CMC)."""

    matrix: Tensor
    offset: Tensor

    def __init__(self, luminance: nn.Module, colour: nn.Module) -> None:
        super().__init__()
        self.luminance, self.colour = luminance, colour
        space, spread = torch.tensor(YDBDR), torch.tensor(YDBDR_STD)[:, None]
        matrix = space * torch.tensor(STD) / spread
        offset = (space @ torch.tensor(MEAN) - torch.tensor(YDBDR_MEAN)) / spread[:, 0]
        # Constants, not weights: they follow the device and stay out of the saved encoder.
        self.register_buffer("matrix", matrix[:, :, None, None], persistent=False)
        self.register_buffer("offset", offset, persistent=False)

    def streams(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of the luminance (N, D) and of the two colour channels (N, D)."""
        converted = nn.functional.conv2d(images, self.matrix, self.offset)
        return to_float32(self.luminance(converted[:, :1])), to_float32(self.colour(converted[:, 1:]))

    def forward(self, images: Tensor) -> Tensor:
        """Both streams, (N, 2 D)."""
        return torch.cat(self.streams(images), dim=1)


class PatchGrid(nn.Module):
    """Images (N, 3, H, W) → the mean of the features (N, D) of a grid of patches that overlap by half (CPC)."""

    def __init__(self, trunk: nn.Module, patch: int) -> None:
        super().__init__()
        self.trunk, self.patch = trunk, patch

    def side(self, image_size: int) -> int:
        """Patches along a side of an image."""
        return max(0, (image_size - self.patch) // (self.patch // 2) + 1)

    def grid(self, images: Tensor) -> Tensor:
        """One feature vector per patch: (N, D, rows, columns)."""
        stride = self.patch // 2
        cut = images.unfold(2, self.patch, stride).unfold(3, self.patch, stride)  # (N, 3, rows, columns, P, P)
        count, channels, rows, columns = cut.shape[:4]
        patches = cut.permute(0, 2, 3, 1, 4, 5).reshape(-1, channels, self.patch, self.patch)
        features = to_float32(self.trunk(patches))
        return features.view(count, rows, columns, -1).permute(0, 3, 1, 2)

    def forward(self, images: Tensor) -> Tensor:
        """The mean of the grid."""
        return self.grid(images).mean(dim=(2, 3))
