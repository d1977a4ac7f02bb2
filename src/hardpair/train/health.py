"""Is it learning, or has it collapsed? Two numbers, and plain words for when they are bad."""

from collections.abc import Mapping

import torch
from torch import Tensor

ROWS = 512  # enough to tell, and cheap at any batch size


@torch.no_grad()
def spread(features: Tensor) -> Tensor:
    """How far directions differ: 0 where all features point one way, about 1 where they point everywhere."""
    unit = torch.nn.functional.normalize(features[:ROWS].float(), dim=1)
    return unit.std(dim=0, correction=0).mul(features.shape[1] ** 0.5).mean()


@torch.no_grad()
def effective_rank(features: Tensor) -> Tensor:
    """exp(entropy of the singular values) of the centred features: the number of directions really used."""
    centred = features[:ROWS].double()
    centred = centred - centred.mean(0)
    if not bool(centred.isfinite().all()):
        return centred.new_full((), torch.nan)
    gram = centred.T @ centred if centred.shape[1] < len(centred) else centred @ centred.T
    try:  # on a GPU it may not converge, and a figure for the log is no reason to end a run
        values = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # torch has it, but its types leave it out
        return centred.new_full((), torch.nan)
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return torch.exp(torch.special.entr(shares).sum())


def complaints(scalars: Mapping[str, float]) -> dict[str, str]:
    """What a person should know about these averaged log values: kind of trouble → words."""
    words = {}
    if scalars["rank"] < 2 or scalars["spread"] < 0.1:  # healthy runs: 15 to 90, and .3 to .8
        words["collapse"] = (
            f"features have collapsed: effective rank {scalars['rank']:.1f}, spread {scalars['spread']:.3f}; all "
            "images look alike to the encoder (a lower learning rate or stronger negatives may help)"
        )
    if scalars.get("mined") == 0:
        words["mining"] = "nothing is mined: no two images are nearer than the threshold, so nothing pushes them apart"
    return words
