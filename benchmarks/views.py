"""Views beside the same policy in torchvision v2, image by image, and in kornia, on batches.

    python benchmarks/views.py

One thread, photos of 32 and 96 px, all taken in turns in one run; ratios are those of the best times. Goals: 10 times
torchvision and twice kornia at 32 px, three times torchvision at 96 px.
"""

import time
from collections.abc import Callable
from pathlib import Path

import kornia.augmentation as kornia
import torch
from record import record
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.transforms import v2

from hardpair.data import open_images
from hardpair.pixels import MEAN, STD
from hardpair.views import POLICIES, Draw, augmented_view
from hardpair.views.parameters import draw_parameters
from hardpair.views.policies import Policy
from hardpair.views.view import batched_view

COUNT, REPEATS = 160, 15


def torchvision_policy(policy: Policy, size: int, first: v2.Transform) -> v2.Compose:
    """The same operations with the same probabilities in the same order."""
    jitter = v2.ColorJitter(policy.brightness, policy.contrast, policy.saturation, policy.hue)
    blur = v2.GaussianBlur(policy.blur_kernel, policy.blur_sigma)
    return v2.Compose(
        [
            v2.RandomApply([jitter], p=policy.jitter),
            v2.RandomGrayscale(policy.grey),
            v2.RandomHorizontalFlip(policy.flip),
            v2.RandomApply([blur], p=policy.blur),
            v2.RandomResizedCrop(size, scale=policy.crop),
            first,
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def kornia_policy(policy: Policy, size: int) -> kornia.AugmentationSequential:
    """The same in kornia, where a whole batch shares the order of its colour operations."""
    jitter = (policy.brightness, policy.contrast, policy.saturation, policy.hue)
    kernel = (policy.blur_kernel, policy.blur_kernel)
    return kornia.AugmentationSequential(
        kornia.ColorJitter(*jitter, p=policy.jitter),
        kornia.RandomGrayscale(p=policy.grey),
        kornia.RandomHorizontalFlip(p=policy.flip),
        kornia.RandomGaussianBlur(kernel, policy.blur_sigma, p=policy.blur),
        kornia.RandomResizedCrop((size, size), scale=policy.crop, cropping_mode="resample"),
        kornia.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
    )


def best(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Best seconds of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return {name: min(seconds) for name, seconds in times.items()}


def measure(pixels: Tensor) -> dict[str, float]:
    """Images a second, printed with how many times that is ours."""
    size, policy, draw = pixels.shape[-1], POLICIES["strong"], Draw(0, 0, torch.arange(COUNT))
    pictures = [v2.functional.to_pil_image(image) for image in pixels]
    on_tensors, on_pictures = (torchvision_policy(policy, size, first) for first in (v2.Identity(), v2.ToImage()))
    by_kornia = kornia_policy(policy, size)
    seconds = best(
        {
            "hardpair": lambda: augmented_view(pixels, policy, draw),
            "hardpair, without numba": lambda: batched_view(
                pixels, policy, draw, draw_parameters(policy, draw, size), size
            ),
            "torchvision v2, tensors": lambda: [on_tensors(image) for image in pixels],
            "torchvision v2, PIL images": lambda: [on_pictures(picture) for picture in pictures],
            "kornia": lambda: by_kornia(pixels / 255),
        }
    )
    print(f"views at {size} px, policy strong, batch {COUNT}, 1 thread: images a second, ratio of hardpair to it")
    for name, taken in seconds.items():
        print(f"  {name:28} {COUNT / taken:8,.0f}  {taken / seconds['hardpair']:6.1f}", flush=True)
    return {name: COUNT / taken for name, taken in seconds.items()}


def main() -> None:
    """Photos of 32 px, then the same enlarged."""
    torch.set_num_threads(1)
    pixels = open_images("sample", "train", size=32, root=Path()).pixels[:COUNT]
    large = interpolate(pixels / 255, (96, 96), mode="bicubic").clamp_(0, 1).mul_(255).to(torch.uint8)
    record("views", {f"{photos.shape[-1]} px, images a second": measure(photos) for photos in (pixels, large)})


if __name__ == "__main__":
    main()
