"""Whether views are made by compiled loops (kernels.py) or by operations on whole batches."""

import importlib.util

import torch

HAS_NUMBA = importlib.util.find_spec("numba") is not None


def compiled_loops_on(device: torch.device) -> bool:
    """The loops are for processors, and for single precision, which everything but tests has."""
    return HAS_NUMBA and device.type == "cpu" and torch.get_default_dtype() == torch.float32
