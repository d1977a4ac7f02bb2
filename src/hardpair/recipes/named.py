"""The recipes that have a name. Each says what it costs and what it should give."""

from dataclasses import replace

from hardpair.errors import UserError, nearest
from hardpair.recipes.recipe import Recipe

DEMO = Recipe(
    name="demo",
    encoder="resnet18",
    width=0.25,
    epochs=20,
    learning_rate=1e-3,
    settings={
        "head_hidden": 1024,
        "head_outputs": 256,
        "teacher_view": "strong",
        "student_view": "strong",
        "alpha_pos": 1.0,
        "alpha_neg": 1.0,
        "threshold": 1.2,
        "norm": "l2",
    },
)
"""HNPM on the 5,000 bundled photos with settings that work at this scale (docs/method.md says why)."""

PAPER = replace(
    DEMO,
    name="paper",
    epochs=100,
    learning_rate=0.1,
    schedule="paper",
    settings={},
)
"""The paper to the letter (no head, alpha .8/.1, threshold 1, tau .5, Adam .1, batch 160, clip 1) on the same photos
and encoder. It does not learn well at this scale; docs/log.md has the figures."""

CIFAR10 = replace(DEMO, name="cifar10", data="cifar10", width=1.0, epochs=200)
"""The working settings on the 50,000 training images of CIFAR-10 with a full ResNet-18. Made for a GPU."""

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DEMO, PAPER, CIFAR10)}


def find_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise UserError(f"recipe: there is no {name!r}{nearest(name, RECIPES)}")
    return RECIPES[name]
