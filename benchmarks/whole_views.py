"""The demo's HNPM with views as large as its images and none smaller: what steps are measured with."""

from dataclasses import replace
from typing import Any

from hardpair.recipes import Recipe, find_recipe


def whole_views_recipe(**fields: Any) -> Recipe:
    """With these fields besides."""
    demo = find_recipe("demo")
    return replace(demo, view_size=1.0, settings={**demo.settings, "small_views": 0}, **fields)
