"""A ResNet encoder in plain PyTorch; its weights (model.safetensors) and its shape (config.json) lie beside this file.

    model = load()                                    # in eval mode
    outputs = model(model.prepare(picture)[None])     # of a PIL image: (1, 3, H, W) → (1, D)

Nothing but torch, safetensors and, for pictures, Pillow and numpy is needed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d, interpolate, pad

LAYERS = {  # bottlenecks or basic blocks, and how many in each stage
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


def load(folder: str | Path = Path(__file__).parent) -> "Network":
    """The encoder in a folder, in eval mode."""
    folder = Path(folder)
    network = Network(json.loads((folder / "config.json").read_text("utf-8")))
    network.load_state_dict(load_file(folder / "model.safetensors"))
    return network.eval()


class Network(nn.Module):
    """Normalised images (N, 3, H, W) → features (N, num_features), or logits (N, num_classes) if it has classes."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.trunk = build_trunk(**config["encoder"])
        classes, features = config["num_classes"], config["num_features"]
        self.fc = nn.Linear(features, classes) if classes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:  # noqa: D102
        outputs: Tensor = self.fc(self.trunk(images))
        return outputs

    def prepare(self, picture: Any) -> Tensor:
        """A PIL image → (3, S, S), as the encoder was evaluated: the centre square, reduced, its centre, normalised."""
        import numpy as np
        from PIL import Image, ImageOps

        picture = ImageOps.exif_transpose(picture).convert("RGB")
        side, square, size = min(picture.size), self.config["square"], self.config["image_size"]
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        box = (left, top, left + side, top + side)
        reduced = picture.resize((square, square), Image.Resampling.BICUBIC, box=box)
        pixels = torch.from_numpy(np.array(reduced)).permute(2, 0, 1)[None] / 255
        room = square if square < round(size * 256 / 224) else round(square * 224 / 256)
        edge = (square - room) // 2
        pixels = pixels[:, :, edge : edge + room, edge : edge + room]
        if room != size:
            pixels = interpolate(pixels, (size, size), mode="bilinear", antialias=True)
        mean, std = (torch.tensor(self.config[name])[:, None, None] for name in ("mean", "std"))
        return (pixels[0] - mean) / std


def build_trunk(
    name: str,
    *,
    width: float = 1,
    sk: bool = False,
    small_images: bool = False,
    colour_streams: bool = False,
    patch: int = 0,
    **_: Any,  # what says how it was trained, and changes no shape
) -> nn.Module:
    """A ResNet by its name, alone, as two colour streams, or on patches."""
    bottlenecks, layers = LAYERS[name]

    def resnet(width: float, **settings: Any) -> ResNet:
        block = SelectiveBottleneck if sk else Bottleneck if bottlenecks else BasicBlock
        channels = [round(c * width) for c in (64, 128, 256, 512)]
        return ResNet(block, layers, channels, small_images=small_images, **settings)

    if colour_streams:
        return ColourStreams(resnet(width / 2, inputs=1), resnet(width / 2, inputs=2))
    return PatchGrid(resnet(width, norm=LayerNorm), patch) if patch else resnet(width)


class LayerNorm(nn.GroupNorm):
    """Over all channels and pixels of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels)


class Subsampled(nn.Conv2d):
    """A 1x1 convolution of every second pixel: one of stride 2, whose gradient torch computes wrongly if it is narrow.

    (Seen in 2.10 to 2.15, on CPUs, in the channels-last layout, with fewer than 16 channels.)
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, D102
        return super().forward(input[..., ::2, ::2])


class ShortcutPool(nn.Module):
    """Mean of 2x2 pixels with a border of zeros at the bottom and on the right."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return avg_pool2d(pad(x, (0, 1, 0, 1)), 2, self.stride)


def shortcut(inputs: int, outputs: int, stride: int, norm: Any) -> nn.Sequential:
    """From the inputs of a block to the shape of its outputs."""
    conv = (nn.Conv2d if stride == 1 else Subsampled)(inputs, outputs, 1, bias=False)
    return nn.Sequential(conv, norm(outputs))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, norm: Any, *, first: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = norm(width)
        self.downsample = shortcut(inputs, width, stride, norm) if first and stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        branch = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        outputs: Tensor = branch + self.downsample(x)
        return outputs.relu()


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, norm: Any, *, first: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = norm(4 * width)
        self.downsample = shortcut(inputs, 4 * width, stride, norm) if first else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        branch = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()
        outputs: Tensor = self.bn3(self.conv3(branch)) + self.downsample(x)
        return outputs.relu()


class NormedConv(nn.Module):
    """A convolution and a norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        outputs: Tensor = self.bn(self.conv(x))
        return outputs


class Selection(nn.Module):
    """Weights of two streams (N, 2, C, H, W), by what the image shows: (N, 2, C, 1, 1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        reduced = max(channels // 16, 32)
        self.fc_reduce = nn.Conv2d(channels, reduced, 1, bias=False)
        self.bn = nn.BatchNorm2d(reduced)
        self.fc_select = nn.Conv2d(reduced, 2 * channels, 1, bias=False)

    def forward(self, streams: Tensor) -> Tensor:  # noqa: D102
        pooled = streams.sum(1).mean((2, 3), keepdim=True)
        logits: Tensor = self.fc_select(self.bn(self.fc_reduce(pooled)).relu())
        return logits.view(len(logits), 2, -1, 1, 1).softmax(1)


class SelectiveKernels(nn.Module):
    """Two 3x3 convolutions of the same inputs, added with weights."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.paths = nn.ModuleList([NormedConv(width, width, 3, stride) for _ in range(2)])
        self.attn = Selection(width)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        streams = torch.stack([path(x).relu() for path in self.paths], 1)
        weighted: Tensor = streams * self.attn(streams)
        return weighted.sum(1)


class SelectiveBottleneck(nn.Module):
    """A bottleneck with selective kernels, as in SimCLRv2."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, norm: Any, *, first: bool) -> None:
        super().__init__()
        self.conv1 = NormedConv(inputs, width, 1)
        self.conv2 = SelectiveKernels(width, stride)
        self.conv3 = NormedConv(width, 4 * width, 1)
        projected = (ShortcutPool(stride), nn.Conv2d(inputs, 4 * width, 1, bias=False), norm(4 * width))
        self.downsample = nn.Sequential(*projected) if first else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        outputs: Tensor = self.conv3(self.conv2(self.conv1(x).relu())) + self.downsample(x)
        return outputs.relu()


class ResNet(nn.Module):
    """Images (N, C, H, W) → features (N, D)."""

    def __init__(
        self,
        block: Any,
        layers: tuple[int, ...],
        channels: list[int],
        *,
        small_images: bool,
        inputs: int = 3,
        norm: Any = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        deep = block is SelectiveBottleneck
        stem = channels[0] // 2 * 2 if deep else channels[0]
        self.conv1 = _stem(inputs, stem, norm, small_images=small_images, deep=deep)
        self.bn1 = norm(stem)
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, 2, 1)
        before = stem
        for stage, (count, width) in enumerate(zip(layers, channels, strict=True)):
            blocks = []
            for place in range(count):
                stride = 2 if stage and not place else 1
                blocks.append(block(before, width, stride, norm, first=not place))
                before = width * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        return x.mean((2, 3))


def _stem(inputs: int, width: int, norm: Any, *, small_images: bool, deep: bool) -> nn.Module:
    if small_images:
        return nn.Conv2d(inputs, width, 3, padding=1, bias=False)
    if not deep:
        return nn.Conv2d(inputs, width, 7, stride=2, padding=3, bias=False)
    half = width // 2
    return nn.Sequential(
        nn.Conv2d(inputs, half, 3, stride=2, padding=1, bias=False),
        norm(half),
        nn.ReLU(),
        nn.Conv2d(half, half, 3, padding=1, bias=False),
        norm(half),
        nn.ReLU(),
        nn.Conv2d(half, width, 3, padding=1, bias=False),
    )


# From RGB normalised by ImageNet's mean and deviation to YDbDr normalised by its own.
SPACE = ((0.299, 0.587, 0.114), (-0.450, -0.883, 1.333), (-1.333, 1.116, 0.217))
SPACE_MEAN, SPACE_STD = (0.457, -0.082, -0.052), (0.5, 1.331, 1.333)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ColourStreams(nn.Module):
    """Features of luminance and of colour, side by side (CMC)."""

    def __init__(self, luminance: nn.Module, colour: nn.Module) -> None:
        super().__init__()
        self.luminance, self.colour = luminance, colour

    def forward(self, images: Tensor) -> Tensor:  # noqa: D102
        space, spread = images.new_tensor(SPACE), images.new_tensor(SPACE_STD)[:, None]
        matrix = space * images.new_tensor(STD) / spread
        offset = (space @ images.new_tensor(MEAN) - images.new_tensor(SPACE_MEAN)) / spread[:, 0]
        converted = conv2d(images, matrix[:, :, None, None], offset)
        return torch.cat([self.luminance(converted[:, :1]), self.colour(converted[:, 1:])], 1)


class PatchGrid(nn.Module):
    """The mean of the features of a grid of patches that overlap by half (CPC)."""

    def __init__(self, trunk: nn.Module, patch: int) -> None:
        super().__init__()
        self.trunk, self.patch = trunk, patch

    def forward(self, images: Tensor) -> Tensor:  # noqa: D102
        stride = self.patch // 2
        cut = images.unfold(2, self.patch, stride).unfold(3, self.patch, stride)  # (N, 3, rows, columns, P, P)
        patches = cut.permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
        features: Tensor = self.trunk(patches)
        return features.view(len(images), -1, features.shape[1]).mean(1)
