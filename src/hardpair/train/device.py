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
        first_line = str(error).splitlines()[0]
        raise UserError(f"device: {name!r} cannot be used ({first_line}); try auto or cpu") from error
    return device
