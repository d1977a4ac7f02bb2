"""Views on a processor, image by image: all that is done to one is done while it lies in the nearest cache."""

import functools
import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from hardpair.views.kernels import make_views
from hardpair.views.parameters import Parameters

WORTH_A_THREAD = 1 << 16  # pixels; with fewer, waking a thread takes longer than it saves


@functools.cache
def _helpers(threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001 (a forked process needs its own)
    """Threads that wait for the next batch: to start one takes a fifth of the time that it saves."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="views")


def fused_view(images: Tensor, chosen: Parameters, out: int, blur_width: int, *, crop_first: bool) -> Tensor:
    """Normalised views of uint8 (N, 3, S, S), by these parameters: float (N, 3, out, out), channels last."""
    count, size = len(images), images.shape[-1]
    view = torch.empty(count, out, out, 3)
    places = torch.column_stack([chosen.box, chosen.flipped])
    switches = torch.column_stack([chosen.grey, chosen.solarised])
    rows = (images.contiguous(), view, chosen.factors, chosen.order, places, chosen.sigma, switches)
    arrays = [column.numpy() for column in rows]
    threads = max(1, min(torch.get_num_threads(), count * size * size // WORTH_A_THREAD))
    ends = [count * part // threads for part in range(threads + 1)]

    def work(part: int) -> None:
        own = [array[ends[part] : ends[part + 1]] for array in arrays]
        make_views(*own, blur_width, crop_first)

    others = [_helpers(threads, os.getpid()).submit(work, part) for part in range(1, threads)]
    work(0)
    for other in others:
        other.result()
    return view.permute(0, 3, 1, 2)
