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


def duration(seconds: float) -> str:
    """7 s, 3 min 20 s, 25 min, 1 h 55 min, 2 d 4 h: the two largest units, as far as they matter."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def sides(images: int, views: int) -> str:
    """Pixels of the images, and of the views made of them where they are others: 32 px, views of 24 px."""
    return f"{images} px" if views == images else f"{images} px, views of {views} px"
