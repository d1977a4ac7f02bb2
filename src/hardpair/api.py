"""The package from Python, for scripts and notebooks: the same names as the command line, which stands beside it.

import hardpair as hp
run = hp.pretrain("path/to/photos", epochs=20)
run.evaluate("knn", "linear")
encoder = hp.load_encoder(run)
"""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from hardpair import train
from hardpair.data import open_images
from hardpair.errors import UserError, nearest
from hardpair.evaluate import evaluate_run
from hardpair.evaluate.features import features_of
from hardpair.files import read_json
from hardpair.machine import prepare_to_compute
from hardpair.methods import resolve_method
from hardpair.models import load_encoder
from hardpair.recipes import Recipe, find_recipe, method_settings
from hardpair.recipes.command import with_method
from hardpair.report import write_report

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class Run:
    """A run on disk. It can be given wherever the folder of a run can: ``load_encoder(run)``, ``Path(run)``.

    Args:
        folder: where its encoder, checkpoints, log and scores are.
        finished: whether training reached its end; else ``pretrain(…, resume=True)`` goes on.
    """

    folder: Path
    finished: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))  # text is welcome, too

    def __fspath__(self) -> str:
        return str(self.folder)

    def evaluate(
        self,
        *protocols: str,
        data: Folder | None = None,
        on: Literal["test", "validation"] = "test",
        data_root: Folder = "data",
        device: str = "auto",
    ) -> dict[str, dict[str, float]]:
        """Score the encoder on labelled images, ``("knn", "linear")`` when no protocol is given.

        Returns the metrics of each protocol, and those of a randomly initialised encoder of the same shape under
        ``random_``. The full scores are appended to ``scores.jsonl`` in the folder. Choose hyperparameters with
        ``on="validation"``, a fifth of the training images.
        """
        scores = evaluate_run(
            self.folder,
            protocols or ("knn", "linear"),
            on=on,
            data=None if data is None else os.fspath(data),
            data_root=Path(data_root),
            device=train.pick_device(device),
            say=print,
        )
        return {
            score["protocol"]: {**score["metrics"], **{f"random_{k}": v for k, v in score["control"].items()}}
            for score in scores
        }

    def features(
        self,
        data: Folder | None = None,
        *,
        split: Literal["train", "test"] = "train",
        data_root: Folder = "data",
        device: str = "auto",
    ) -> Tensor:
        """Features of a split of the run's images, or of others, float32 (N, num_features) on the CPU.

        Images are resized and normalised as in training. A folder without train/ and test/ has all of its images in
        "train", or, with one folder per class, all but those held out for testing.
        """
        recipe = read_json(self.folder / "recipe.json")
        source = recipe["data"] if data is None else os.fspath(data)
        images = open_images(source, split, size=recipe["image_size"], root=Path(data_root))
        where = train.pick_device(device)
        return features_of(load_encoder(self.folder).to(where), images, where)

    def report(self) -> Path:
        """Write the page with scores, curves and pictures; returns its path."""
        return write_report(self.folder)


def pretrain(
    data: Folder | None = None,
    *,
    recipe: str = "demo",
    run: Folder | None = None,
    resume: bool = False,
    data_root: Folder = "data",
    device: str = "auto",
    threads: int = 0,
    checkpoint_every: int = 200,
    **settings: Any,
) -> Run:
    """Train an encoder without labels, and leave it in the folder ``run``.

    Args:
        data: "sample" (bundled photos), "cifar10", or a folder of images; the recipe's own when not given.
        recipe: a name that `hardpair recipes` lists; its values hold where nothing else is given.
        run: folder of the run; runs/RECIPE when not given. One that exists is refused unless ``resume``.
        resume: continue from the last checkpoint if the run is there, else start it.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
        checkpoint_every: steps between checkpoints.
        settings: any field of the recipe (epochs, batch_size, encoder, seed, …) or setting of the method (threshold,
            tau, …), by name; ``method`` may be ``"path/to/file.py:CLASS"``.
    """
    chosen = _recipe(recipe, settings if data is None else {**settings, "data": os.fspath(data)})
    folder = Path("runs") / chosen.name.replace("/", "-") if run is None else Path(run)
    prepare_to_compute(threads)
    outcome = train.pretrain(
        chosen,
        folder,
        resume=resume,
        data_root=Path(data_root),
        device=device,
        checkpoint_every=checkpoint_every,
    )
    return Run(folder, finished=outcome.status == "finished")


def _recipe(name: str, given: dict[str, Any]) -> Recipe:
    """The named recipe with some fields of it, and settings of its method, changed."""
    recipe = dataclasses.replace(find_recipe(name), name=name)
    if "method" in given:
        recipe = with_method(recipe, resolve_method(given["method"]))
    fields = {field.name for field in dataclasses.fields(Recipe)} - {"name", "settings", "method"}
    known = method_settings(recipe.method)
    for word in given.keys() - {"method"}:
        if word not in fields and word not in known:
            raise UserError(f"{word}: neither the recipe nor {recipe.method} has it{nearest(word, [*fields, *known])}")
    changed = {word: value for word, value in given.items() if word in fields}
    settings = {word: value for word, value in given.items() if word in known and word not in fields}
    return dataclasses.replace(recipe, settings={**recipe.settings, **settings}, **changed)
