"""Protocols that need nothing but features: knn and the offline linear one."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hardpair.evaluate.trial import Bench, Judgement, Trial
from hardpair.models import Encoder


def features_trial(
    bench: Bench, name: str, protocol: Callable[..., dict[str, float]], given: Mapping[str, Any]
) -> Trial:
    """A trial on the features of the training and test images."""
    train, test = bench.images("train"), bench.images("test")

    def judge(encoder: Encoder) -> Judgement:
        result = protocol(bench.labelled(encoder, train), bench.labelled(encoder, test), **given)
        metrics = {key: value for key, value in result.items() if key.startswith("top")}
        return Judgement(metrics, {key: value for key, value in result.items() if key not in metrics})

    return Trial(name, all_settings(protocol, given), {"train": train, "test": test}, judge)


def all_settings(protocol: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol's settings with their defaults."""
    parameters = inspect.signature(protocol).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY} | dict(given)
