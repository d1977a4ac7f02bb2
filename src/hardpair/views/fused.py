"""Views on a processor, image by image: all that is done to one is done while it lies in the nearest cache."""

import torch
from torch import Tensor

from hardpair.views.kernels import make_views
from hardpair.views.parameters import Parameters
from hardpair.views.team import share

WORTH_A_THREAD = 1 << 15  # pixels; with fewer, to share them takes longer than it saves


def fused_view(images: Tensor, chosen: Parameters, out: int, blur_width: int, *, crop_first: bool) -> Tensor:
    """Normalised views of uint8 (N, 3, S, S), by these parameters: float (K, 3, out, out), channels last.

    Where there are parameters for more than N views, the images are gone through again.
    """
    count, size, pixels = len(chosen.sigma), images.shape[-1], images.contiguous().numpy()
    view = torch.empty(count, out, out, 3)
    rows = [column.numpy() for column in (view, *vars(chosen).values())]
    parts = max(1, min(torch.get_num_threads(), count * size * size // WORTH_A_THREAD))
    ends = [count * part // parts for part in range(parts + 1)]

    def make_some(part: int) -> None:
        first, last = ends[part], ends[part + 1]
        make_views(pixels, first, *(row[first:last] for row in rows), blur_width, crop_first)

    share(make_some, parts)
    return view.permute(0, 3, 1, 2)
