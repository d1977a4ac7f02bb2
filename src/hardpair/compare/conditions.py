"""What all runs of a comparison or an ablation may be told to share; light, so that help answers at once."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Where one of these is not given, the recipe decides.

    Args:
        data: "sample" (bundled photos), "cifar10", a part of them ("cifar10:10000"), or a folder of labelled images;
            where this or one of the next seven is not given, the recipe decides.
        encoder: depth of the ResNet, "resnet10" to "resnet200".
        width: multiplies every channel count.
        sk: selective kernels, in bottlenecks.
        image_size: side in pixels to which images are resized once, before training.
        view_size: side of the views in training, as a share of image_size.
        small_images: 3x3 stem of stride 1 without pooling, for images up to about 64 px.
        batch_size: images per step.
    """

    data: str | None = None
    encoder: str | None = None
    width: float | None = None
    sk: bool | None = None
    image_size: int | None = None
    view_size: float | None = None
    small_images: bool | None = None
    batch_size: int | None = None
