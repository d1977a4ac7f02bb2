"""Heads: what methods put on top of an encoder while it trains."""

from torch import nn

from hardpair.errors import require_range


def build_head(inputs: int, *, hidden: int, outputs: int) -> nn.Module:
    """A projection head: nothing when ``outputs`` is 0, linear when ``hidden`` is 0, else Linear-BN-ReLU-Linear."""
    require_range("head_hidden", hidden, 0, 65_536)
    require_range("head_outputs", outputs, 0, 65_536)
    if outputs == 0:
        return nn.Identity()
    if hidden == 0:
        return nn.Linear(inputs, outputs)
    return nn.Sequential(
        nn.Linear(inputs, hidden, bias=False),  # batch norm brings its own offset
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, outputs),
    )
