"""Turn a uint8 batch into a view, each image with its own random parameters.

Views have two forms: operations on the whole batch, on any device (batched.py), and on a CPU loops that numba compiles
(kernels.py), which are several times as fast (docs/explanation/speed.md). Tests compare the two with each other.
"""

import threading
from collections.abc import Callable
from dataclasses import fields, replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from hardpair.pixels import MEAN, STD
from hardpair.views import batched
from hardpair.views.batched import constant
from hardpair.views.draw import Draw
from hardpair.views.parameters import ViewParameters, draw_parameters, has_kernels
from hardpair.views.policies import POLICIES, Policy
from hardpair.views.randaugment import randaugment

COMPILE_NOTICE_SECONDS = 1.5
TOGETHER = 256  # images that operations on batches see at once: what they need on the way is several times their views


def plain_view(images: Tensor, size: int = 0) -> Tensor:
    """The image as it is, or reduced to ``size`` pixels, normalised: uint8 (N, 3, H, W) → float (N, 3, H, W)."""
    view = images / 255
    if size and size != view.shape[-1]:
        view = interpolate(view, (size, size), mode="bilinear", antialias=True)
    return _normalise(view)


def augmented_view(images: Tensor, policy: Policy, draw: Draw) -> Tensor:
    """A view of each image, uint8 (N, 3, S, S), by each scope of the draw, one after the other: float (K N, 3, T, T).

    T is the size that the draw asks for; values are normalised.
    """
    size = images.shape[-1]
    chosen, out = draw_parameters(policy, draw, size), draw.size or size
    if has_kernels(images.device) and not policy.randaugment:
        from hardpair.views.kernels import kernel_view  # here, since numba takes a second to import

        return kernel_view(images, policy, chosen, out)
    if len(images) <= TOGETHER:
        return batched_view(images, policy, draw, chosen, out)
    return _in_parts(images, policy, draw, chosen, out)


def _in_parts(images: Tensor, policy: Policy, draw: Draw, chosen: ViewParameters, out: int) -> Tensor:
    """The same views, in memory for hardly more than themselves."""
    places = torch.arange(len(draw.scopes) * len(images), device=images.device).view(-1, len(images))  # (K, N)
    views = torch.empty(places.numel(), 3, out, out, device=images.device, memory_format=torch.channels_last)
    for some in torch.arange(len(images), device=images.device).split(TOGETHER):
        rows, part = places[:, some].flatten(), replace(draw, positions=draw.positions[some])
        own = ViewParameters(*(getattr(chosen, field.name)[rows] for field in fields(chosen)))
        views[rows] = batched_view(images[some], policy, part, own, out)
    return views


def batched_view(images: Tensor, policy: Policy, draw: Draw, chosen: ViewParameters, out: int) -> Tensor:
    """The same on any device, by operations on the whole batch."""
    view = torch.cat([images] * len(draw.scopes)) / 255
    if not policy.crop_first:
        view = _grey(_jitter(view, policy, chosen), policy, chosen)
        return _normalise(_place(_blur(view, policy, chosen), chosen, out))
    view = _jitter(_place(view, chosen, out), policy, chosen)
    view = _blur(view, policy, chosen)
    if policy.randaugment:
        view = randaugment(view, draw)
    return _normalise(_solarise(_grey(view, policy, chosen), policy, chosen))


def compile_kernels(say: Callable[[str], None] = print) -> None:
    """Make a view on the CPU, so that numba has compiled its kernels, or loaded what it kept of them."""
    message = "compiling the view kernels: some ten seconds, once on each machine"
    notice = threading.Timer(COMPILE_NOTICE_SECONDS, say, [message])  # to load them takes less
    notice.start()
    try:
        augmented_view(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), POLICIES["paper"], Draw(0, 0, torch.arange(2)))
    finally:
        notice.cancel()


def two_views(
    images: Tensor, first: str, second: str, draw: Draw, scopes: tuple[str, str] = ("first", "second")
) -> list[Tensor]:
    """Two independent views by named policies; of one policy both in one call, faster and the same views."""
    if first == second:
        return list(augmented_view(images, POLICIES[first], draw.within(*scopes)).chunk(2))
    return [
        augmented_view(images, POLICIES[name], draw.within(scope))
        for name, scope in zip((first, second), scopes, strict=True)
    ]


# Which images have an operation is asked of the device, and waited for: only where the policy has it at all.


def _jitter(view: Tensor, policy: Policy, chosen: ViewParameters) -> Tensor:
    return batched.jitter(view, chosen.factors, chosen.order) if policy.jitter else view


def _grey(view: Tensor, policy: Policy, chosen: ViewParameters) -> Tensor:
    if policy.grey:
        rows = chosen.grey.nonzero()[:, 0]
        view[rows] = batched.grey(view[rows]).expand(-1, 3, -1, -1)
    return view


def _place(view: Tensor, chosen: ViewParameters, out: int) -> Tensor:
    """Flip and crop in one pair of matrix products."""
    size, flipped = view.shape[-1], chosen.flipped[:, None]
    top, left, height, width = chosen.box.unbind(1)
    if out == size:
        down, across = batched.crop_positions(top, height, size), batched.crop_positions(left, width, size)
        rows = batched.sampling_matrix(down, size)  # (N, S, S)
        columns = batched.sampling_matrix(torch.where(flipped, size - across, across), size)
    else:
        rows = batched.shrinking_matrix(top, height, size, out)  # (N, T, S)
        columns = batched.shrinking_matrix(left, width, size, out)
        columns = torch.where(flipped[:, :, None], columns.flip(2), columns)
    return batched.apply(view, rows, columns)


def _blur(view: Tensor, policy: Policy, chosen: ViewParameters) -> Tensor:
    if policy.blur:
        rows, size = chosen.sigma.nonzero()[:, 0], view.shape[-1]
        matrix = batched.blur_matrix(size, policy.blur_width(size), chosen.sigma[rows])
        view[rows] = batched.apply(view[rows], matrix, matrix)
    return view


def _solarise(view: Tensor, policy: Policy, chosen: ViewParameters) -> Tensor:
    if policy.solarise:
        rows = chosen.solarised.nonzero()[:, 0]
        view[rows] = batched.solarise(view[rows])
    return view


def _normalise(view: Tensor) -> Tensor:
    """Mean and standard deviation, written in the channels-last layout that encoders want."""
    normalised = torch.empty_like(view, memory_format=torch.channels_last)
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):  # twice as fast as one broadcast operation
        shift = constant(-mean / std, view.device, view.dtype)
        torch.add(shift, view[:, channel], alpha=1 / std, out=normalised[:, channel])
    return normalised
