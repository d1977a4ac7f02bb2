"""Where to compute."""

import os

import torch

from hardpair.errors import UserError


def pick_device(name: str) -> torch.device:
    """ "auto" is CUDA where there is one, else the CPU; anything else is taken by name.

    Of several processes on a machine, each takes the GPU of its own number.
    """
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", device.index or 0)))
            torch.cuda.set_device(device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        if "Expected one of" in reason:  # and twenty types that torch knows follow
            reason = "no such device; a GPU is called cuda" if name == "gpu" else "no such device"
        raise UserError(f"device: {name!r} cannot be used ({reason}); try auto or cpu") from error
    return device
