"""Counts and quantities as people read them."""

import math

PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")


def several(count: int, word: str) -> str:
    """3 images, 1 image, 0 images."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def scaled(value: float, unit: str) -> str:
    """With a prefix: 15.5 GB."""
    power = min(int(math.log10(value) // 3), len(PREFIXES) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.1f} {PREFIXES[power]}{unit}"


def clock(seconds: float) -> str:
    """Minutes and seconds: 0:07, 125:30."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def sides(images: int, views: int) -> str:
    """Pixels of the images, and of the views made of them where they are others: 32 px, views of 24 px."""
    return f"{images} px" if views == images else f"{images} px, views of {views} px"
