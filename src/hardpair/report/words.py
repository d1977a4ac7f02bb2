"""Numbers, dates and names as people read them."""

import json
import re
from datetime import datetime
from typing import Any

from hardpair.words import duration as in_words

_THIN = "\N{NARROW NO-BREAK SPACE}"  # keeps a number and its unit on one line
_MINUS = "\N{MINUS SIGN}"

_LARGEST = 1e100

_METRICS = {"top1": "top-1", "top5": "top-5", "mean_per_class": "mean per class", "map11": "11-point mAP"}
_METHODS = {
    "hnpm": "hard negative pair mining (HNPM)",
    "simclr": "SimCLR",
    "simclrv2": "SimCLRv2",
    "moco": "MoCo v2",
    "byol": "BYOL",
    "simsiam": "SimSiam",
    "cmc": "contrastive multiview coding (CMC)",
    "cpc": "contrastive predictive coding (CPC v2)",
    "infomin": "InfoMin",
    "instdisc": "instance discrimination (InstDisc)",
    "supervised": "supervised training",
}


def numeric(value: Any) -> float | None:
    """A finite number, or None for whatever else a file may hold, numbers too large to draw or average among it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def percent(value: float) -> str:
    """45.12 → 45.1 %."""
    return f"{value:.1f}{_THIN}%"


def number(value: float) -> str:
    """About three figures, whatever the size."""
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}".replace("-", _MINUS)
    digits = ",.0f" if abs(value) >= 100 else ".1f" if abs(value) >= 10 else ".3g"
    return f"{value:{digits}}".replace("-", _MINUS)


def count(value: Any) -> str:
    """5000 → 5,000; a dash where the file does not say."""
    known = numeric(value)
    return "–" if known is None else f"{known:,.0f}"


def signed(value: float) -> str:
    """+12.1 or −3.0."""
    return f"{value:+.1f}".replace("-", _MINUS)


def points(difference: float) -> str:
    """12.1 → 12.1 points above."""
    return f"{abs(difference):.1f} points {'below' if difference < 0 else 'above'}"


def duration(seconds: float) -> str:
    """210.3 → 3 min 30 s."""
    return re.sub(r"(\d) ", rf"\1{_THIN}", in_words(seconds))


def day(text: str) -> str:
    """2026-03-03T10:00:00 → 3 March 2026; text that is no date stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.day} {moment:%B %Y}"


def metric_name(key: str) -> str:
    """top1 → top-1."""
    return _METRICS.get(key, key.replace("_", " "))


def is_percentage(key: str, value: float) -> bool:
    """Whether a metric is a share of a hundred, so that a bar means something."""
    known = key.startswith("top") or "accuracy" in key or key in _METRICS
    return known and 0 <= value <= 100


def method_name(key: str) -> str:
    """The method in words where it has some."""
    return _METHODS.get(key, key)


def plain(value: Any) -> str:
    """A value of a JSON file as one line of text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
