"""Views beside the same policy in torchvision v2, image by image, and in kornia, on batches.

    python benchmarks/views.py

One thread, photos of 32 and 96 px, all taken in turns in one run; ratios are those of the best times. Goals: 10 times
torchvision and twice kornia at 32 px, three times torchvision at 96 px.

Before that, one thread and all threads, each time right after an operation of torch, as in training: its threads wait
busily for the next one, on the same cores. Medians, since what is in the way is part of it.
"""

import functools
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest.mock import patch

import kornia.augmentation as kornia
import torch
from record import record
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.transforms import v2

from hardpair.data import open_images
from hardpair.pixels import MEAN, STD
from hardpair.views import POLICIES, Draw, augmented_view, parameters
from hardpair.views.policies import Policy

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


def in_turns(
    works: dict[str, Callable[[], object]],
    repeats: int,
    of_times: Callable[[Iterable[float]], float],
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Seconds of each, taken in turns, after something that does not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            before()
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return {name: of_times(seconds) for name, seconds in times.items()}


def measure(pixels: Tensor) -> dict[str, float]:
    """Images per second, printed with how many times that is ours."""
    size, policy, draw = pixels.shape[-1], POLICIES["strong"], Draw(0, 0, torch.arange(COUNT))
    pictures = [v2.functional.to_pil_image(image) for image in pixels]
    on_tensors, on_pictures = (torchvision_policy(policy, size, first) for first in (v2.Identity(), v2.ToImage()))
    by_kornia = kornia_policy(policy, size)

    def without_numba() -> Tensor:
        with patch.object(parameters, "HAS_NUMBA", new=False):
            return augmented_view(pixels, policy, draw)

    seconds = in_turns(
        {
            "hardpair": lambda: augmented_view(pixels, policy, draw),
            "hardpair, without numba": without_numba,
            "torchvision v2, tensors": lambda: [on_tensors(image) for image in pixels],
            "torchvision v2, PIL images": lambda: [on_pictures(picture) for picture in pictures],
            "kornia": lambda: by_kornia(pixels / 255),
        },
        REPEATS,
        min,
    )
    print(f"views at {size} px, policy strong, batch {COUNT}, 1 thread: images per second, ratio of hardpair to it")
    for name, taken in seconds.items():
        print(f"  {name:28} {COUNT / taken:8,.0f}  {taken / seconds['hardpair']:6.1f}", flush=True)
    return {name: COUNT / taken for name, taken in seconds.items()}


def after_torch(pixels: Tensor, threads: int) -> dict[str, float]:
    """Milliseconds per batch of views, by the number of threads."""
    policy, draw, square = POLICIES["strong"], Draw(0, 0, torch.arange(COUNT)), torch.randn(400, 400)

    def views(count: int) -> None:
        torch.set_num_threads(count)
        augmented_view(pixels, policy, draw)
        torch.set_num_threads(threads)

    works = {f"threads: {count}": functools.partial(views, count) for count in (1, threads)}
    taken = in_turns(works, 20 * REPEATS, statistics.median, lambda: square @ square)
    print(f"views at {pixels.shape[-1]} px right after an operation of torch: milliseconds per batch of {COUNT}")
    for name, seconds in taken.items():
        print(f"  {name:28} {seconds * 1e3:8.2f}", flush=True)
    return {name: seconds * 1e3 for name, seconds in taken.items()}


def main() -> None:
    """Photos of 32 px, then the same enlarged."""
    threads = torch.get_num_threads()
    pixels = open_images("sample", "train", size=32, root=Path()).pixels[:COUNT]
    large = interpolate(pixels / 255, (96, 96), mode="bicubic").clamp_(0, 1).mul_(255).to(torch.uint8)
    threaded = {f"{photos.shape[-1]} px, milliseconds": after_torch(photos, threads) for photos in (pixels, large)}
    torch.set_num_threads(1)
    alone = {f"{photos.shape[-1]} px, images a second": measure(photos) for photos in (pixels, large)}
    record("views", {**alone, "after an operation of torch": threaded})


if __name__ == "__main__":
    main()
