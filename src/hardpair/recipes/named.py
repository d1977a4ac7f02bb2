"""The recipes that have a name. Each says what it costs and what it should give."""

from hardpair.errors import UserError, nearest
from hardpair.recipes.recipe import Recipe, Setting

WORKING: dict[str, Setting] = {
    "head_hidden": 512,
    "head_outputs": 128,
    "teacher_view": "balanced",
    "student_view": "balanced",
    "alpha_pos": 1.0,
    "alpha_neg": 1.0,
    "threshold": 1.2,
    "norm": "l2",
}
"""Settings of HNPM that work at small scale; docs/method.md says why."""

DEMO = Recipe(name="demo", encoder="resnet10", width=0.25, epochs=40, settings=WORKING)
"""HNPM on the 5,000 bundled photos: about four minutes on two CPU cores. docs/log.md has the scores of three seeds."""

PAPER = Recipe(
    name="paper",
    encoder="resnet10",
    width=0.25,
    epochs=100,
    batch_size=160,
    optimiser="adam",
    learning_rate=0.1,
    schedule="paper",
    clip=1.0,
)
"""The paper to the letter (no head, alpha .8/.1, threshold 1, tau .5, Adam .1, batch 160, clip 1) with the demo's
photos and encoder, about ten minutes. For the paper's own scale give --data, --image-size 224, --no-small-images,
--encoder resnet50 and --width 1. docs/log.md has its result here, which is poor."""

CIFAR10 = Recipe(name="cifar10", data="cifar10", encoder="resnet18", epochs=200, settings=WORKING)
"""The working settings on the 50,000 training images of CIFAR-10 with a full ResNet-18. Made for a GPU; not run yet."""

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DEMO, PAPER, CIFAR10)}


def find_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise UserError(f"recipe: there is no {name!r}{nearest(name, RECIPES)}")
    return RECIPES[name]
