"""Batched views beside the same policy, image by image, in torchvision v2.

    python benchmarks/views.py

One thread, 32 px, alternating in one run; the ratio is that of the best times. Goal: at least 8.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torchvision.transforms import v2

from hardpair.data import open_images
from hardpair.pixels import MEAN, STD
from hardpair.views import POLICIES, Draw, augmented_view
from hardpair.views.policies import Policy

COUNT, REPEATS = 160, 15


def torchvision_policy(policy: Policy, first: v2.Transform) -> v2.Compose:
    """The same operations with the same probabilities in the same order."""
    jitter = v2.ColorJitter(policy.brightness, policy.contrast, policy.saturation, policy.hue)
    blur = v2.GaussianBlur(policy.blur_kernel, (policy.blur_sigma, policy.blur_sigma))
    return v2.Compose(
        [
            v2.RandomApply([jitter], p=policy.jitter),
            v2.RandomGrayscale(policy.grey),
            v2.RandomHorizontalFlip(policy.flip),
            v2.RandomApply([blur], p=policy.blur),
            v2.RandomResizedCrop(32, scale=policy.crop),
            first,
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def best(*works: Callable[[], object]) -> list[float]:
    """Best seconds of each, taken in turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS):
        for work, seconds in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - began)
    return [min(seconds) for seconds in times]


def main() -> None:
    """Print images a second and ratios."""
    torch.set_num_threads(1)
    pixels = open_images("sample", "train", size=32, root=Path()).pixels[:COUNT]
    pictures = [v2.functional.to_pil_image(image) for image in pixels]
    policy, draw = POLICIES["strong"], Draw(0, 0, torch.arange(COUNT))
    on_tensors, on_pictures = (torchvision_policy(policy, first) for first in (v2.Identity(), v2.ToImage()))
    ours, tensors, pil = best(
        lambda: augmented_view(pixels, policy, draw),
        lambda: [on_tensors(image) for image in pixels],
        lambda: [on_pictures(picture) for picture in pictures],
    )
    print(f"views at 32 px, policy strong, batch {COUNT}, 1 thread, images a second")
    print(f"  hardpair batched           {COUNT / ours:8.0f}")
    print(f"  torchvision v2, tensors    {COUNT / tensors:8.0f}   ratio {tensors / ours:.1f}")
    print(f"  torchvision v2, PIL images {COUNT / pil:8.0f}   ratio {pil / ours:.1f}")


if __name__ == "__main__":
    main()
