"""The package from Python, for scripts and notebooks: the same names as the command line, which stands beside it.

import hardpair as hp
run = hp.pretrain("path/to/photos", epochs=20)
run.evaluate("knn", "linear")
encoder = hp.load_encoder(run)
"""

import dataclasses
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from hardpair import distributed, train
from hardpair.data import Images, open_images
from hardpair.errors import UserError, nearest
from hardpair.files import read_json
from hardpair.machine import prepare_to_compute
from hardpair.methods import resolve_method
from hardpair.models import load_encoder
from hardpair.precision import for_evaluation
from hardpair.protocol_settings import refuse_unused, settings_from
from hardpair.recipes import (
    CHOSEN,
    OWN_PHOTOS,
    Recipe,
    check_field,
    find_recipe,
    method_settings,
    tested_side,
    with_encoder,
    with_init,
    with_method,
)
from hardpair.train.callbacks import Callback, check_callbacks
from hardpair.train.parallel import process_group, started_together

Folder = str | os.PathLike[str]
_FIELDS = {field.name for field in dataclasses.fields(Recipe)} - {"name", "settings"}


@dataclass(frozen=True)
class Run:
    """A run on disk. It can be given wherever the folder of a run can: ``load_encoder(run)``, ``Path(run)``.

    Args:
        folder: where its encoder, checkpoints, log and scores are.
        outcome: how its training ended, where it was trained here.
    """

    folder: Path
    outcome: train.Outcome | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))  # text will do

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def finished(self) -> bool:
        """Whether training reached its end; else ``pretrain(…, resume=True)`` goes on."""
        return self.outcome is None or self.outcome.status == "finished"

    def evaluate(
        self,
        *protocols: str,
        data: Folder | None = None,
        image_size: int | None = None,
        on: Literal["test", "validation"] = "test",
        skip_broken: float = 0.0,
        data_root: Folder = "data",
        precision: Literal["float32", "bfloat16", "auto"] = "float32",
        device: str = "auto",
        threads: int = 0,
        **settings: Any,
    ) -> dict[str, dict[str, float]]:
        """Score the encoder on labelled images, ``("knn", "linear")`` when no protocol is given.

        Returns the metrics of each protocol, and those of a randomly initialised encoder of the same shape under
        ``random_``. The full scores are appended to ``scores.jsonl`` in the folder. Choose hyperparameters with
        ``on="validation"``, a fifth of the training images.

        Args:
            protocols: any of knn, linear, semi, transfer, distill.
            data: labelled images; those of the run when not given.
            image_size: pixels that the encoder sees; those of the run's evaluation when not given.
            on: "test" or "validation".
            skip_broken: share of unreadable files that may be left out; up to 5 % always may.
            data_root: where downloaded sets are kept.
            precision: of the encoders' arithmetic; "auto" takes bfloat16 where the hardware has it. Features and all
                that is made of them are float32.
            device: auto, cpu, cuda, cuda:1 …
            threads: of the CPU; 0 leaves the choice to torch.
            settings: of the protocols, as `hardpair evaluate --help` lists them: ``k=20``, ``labels=(0.01,)`` …
        """
        from hardpair.evaluate import evaluate_run  # here and below: pretraining needs none of it

        protocols = protocols or ("knn", "linear")
        checked = settings_from(protocols, settings)
        refuse_unused(protocols, {} if data is None else {"data": data})
        if image_size is not None:
            check_field("image_size", image_size)
        prepare_to_compute(threads)
        place = train.pick_device(device)
        with process_group(place):
            scores = evaluate_run(
                self.folder,
                protocols,
                settings=checked,
                on=on,
                data=None if data is None else os.fspath(data),
                size=image_size,
                data_root=Path(data_root),
                skip_broken=skip_broken,
                precision=for_evaluation(precision, place),
                device=place,
                say=print if distributed.is_main() else lambda _: None,
            )
        return {
            score["protocol"]: {**score["metrics"], **{f"random_{k}": v for k, v in score["control"].items()}}
            for score in scores
        }

    def images(
        self,
        data: Folder | None = None,
        *,
        split: Literal["train", "test"] = "train",
        skip_broken: float = 0.0,
        data_root: Folder = "data",
    ) -> Images:
        """A split of the run's images, or of others, in the size of training, with their ``files`` and ``labels``.

        A folder without train/ and test/ has all of its images in "train", or, with one folder per class, all but those
        held out for testing.
        """
        recipe = self._recipe()
        source = recipe["data"] if data is None else os.fspath(data)
        return open_images(source, split, size=recipe["image_size"], root=Path(data_root), skip_broken=skip_broken)

    def features(self, data: Folder | None = None, *, device: str = "auto", **opening: Any) -> Tensor:
        """Features of `images`, which takes the same arguments, float32 (N, num_features) on the CPU.

        Row k belongs to ``run.images(…).files[k]``. Images are normalised as in training, and shown as in evaluation:
        whole, or their centre to an encoder whose views were cut from larger images.
        """
        from hardpair.evaluate.features import features_of

        where, recipe, encoder = train.pick_device(device), self._recipe(), load_encoder(self.folder)
        small = encoder.settings["small_images"]
        size = tested_side(recipe["image_size"], recipe.get("view_size", 1.0), small_images=small)
        return features_of(encoder.to(where), self.images(data, **opening).tested_at(size), where)

    def _recipe(self) -> dict[str, Any]:
        return dict(read_json(self.folder / "recipe.json"))

    def report(self) -> Path:
        """Write the page with scores, curves and pictures; returns its path."""
        from hardpair.report import write_report

        return write_report(self.folder)


def open_run(source: Folder, *, data: Folder | None = None, encoder: str = "", image_size: int | None = None) -> Run:
    """A run by its folder; or an encoder trained elsewhere as the folder of a run, to evaluate and report like one.

    Args:
        source: folder of a run, ``"timm:NAME"``, a file of weights (safetensors or a state dict), or a folder that
            `hardpair export` wrote.
        data: for an encoder from elsewhere: the labelled images it is to be evaluated on.
        encoder: for a file of weights: the encoder it belongs to, if the file does not show it.
        image_size: for an encoder from elsewhere: pixels; those it was trained for when not given.
    """
    from hardpair.evaluate.imported import import_encoder, is_run

    if is_run(os.fspath(source)):
        if encoder:
            raise UserError("encoder: a run knows its encoder; leave it out")
        return Run(Path(source))
    if started_together() > 1:  # others would read what the first has not written yet
        raise UserError(
            f"{source}: import it in one process first: evaluate it without torchrun, then that folder with it"
        )
    data = None if data is None else os.fspath(data)
    return Run(import_encoder(os.fspath(source), data=data, encoder=encoder, image_size=image_size))


def pretrain(
    data: Folder | None = None,
    *,
    recipe: str | Recipe | None = None,
    hours: float | None = None,
    run: Folder | None = None,
    resume: bool = False,
    skip_broken: float = 0.0,
    data_root: Folder = "data",
    device: str = "auto",
    threads: int = 0,
    checkpoint_every: int = 200,
    shard: bool = False,
    compile: bool = False,  # noqa: A002 - as the command line has it
    callback: Callback | None = None,
    tensorboard: bool = False,
    **settings: Any,
) -> Run:
    """Train an encoder without labels, and leave it in the folder ``run``.

    Args:
        data: "sample" (bundled photos), "cifar10", a folder of images or a list of files (.txt); the recipe's own when
            not given.
        recipe: a name that `hardpair recipes` lists; its values hold where nothing else is given. When not given, the
            demo; for ``data`` of your own a recipe is chosen for these photos and this machine.
        hours: of training, for the recipe that is chosen; about one when not given.
        run: folder of the run; runs/RECIPE, or runs/ and the name of the photos' folder, when not given. One that
            exists is refused unless ``resume``.
        resume: continue from the last checkpoint if the run is there, else start it. With more
            ``epochs`` than the run has, it goes on with the schedule of the longer run.
        skip_broken: share of unreadable files that may be left out; up to 5 % always may.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
        checkpoint_every: steps between checkpoints.
        shard: cut weights and optimiser state among torchrun's processes (FSDP2).
        compile: use torch.compile for the encoders.
        callback: called on rank 0 as ``callback(event, values)`` with every event that log.jsonl gets, and with
            pictures: for W&B and the like (docs/how-to/read-the-logs.md). One that fails costs a warning, not the run.
        tensorboard: write figures and pictures for TensorBoard into the folder ``tensorboard`` of the run.
        settings: any field of the recipe (epochs, batch_size, encoder, seed, …) or setting of the method (threshold,
            tau, …), by name; ``method`` may be ``"path/to/file.py:CLASS"``.
    """
    given = settings if data is None else {**settings, "data": os.fspath(data)}
    base = recipe if recipe is not None else OWN_PHOTOS if "data" in given else "demo"
    return train_recipe(
        _recipe(base, given),
        given.keys(),
        hours=hours,
        run=run,
        resume=resume,
        skip_broken=skip_broken,
        data_root=data_root,
        device=device,
        threads=threads,
        checkpoint_every=checkpoint_every,
        shard=shard,
        compile=compile,
        callback=callback,
        tensorboard=tensorboard,
    )


def train_recipe(
    chosen: Recipe,
    given: Collection[str],
    *,
    hours: float | None,
    run: Folder | None,
    resume: bool,
    skip_broken: float,
    data_root: Folder,
    device: str,
    threads: int,
    checkpoint_every: int,
    shard: bool,
    compile: bool,  # noqa: A002
    callback: Callback | None = None,
    tensorboard: bool = False,
) -> Run:
    """Train a recipe, once what was not given is chosen, where there is a choice."""
    if hours is not None and chosen.name != OWN_PHOTOS:
        raise UserError("hours: goes with a recipe chosen for --data; with a recipe of your own give --epochs")
    folder = default_folder(chosen) if run is None else Path(run)
    if checkpoint_every < 1:
        raise UserError(f"checkpoint_every: must be at least 1, not {checkpoint_every}")
    prepare_to_compute(threads)
    check_callbacks(callback, tensorboard=tensorboard)
    if chosen.name == OWN_PHOTOS:
        chosen = _for_photos(chosen, given, folder, hours=hours, device=device, resume=resume)
    outcome = train.pretrain(
        chosen,
        folder,
        resume=resume,
        data_root=Path(data_root),
        device=device,
        checkpoint_every=checkpoint_every,
        shard=shard,
        compiled=compile,
        skip_broken=skip_broken,
        callback=callback,
        tensorboard=tensorboard,
    )
    return Run(folder, outcome)


def default_folder(recipe: Recipe) -> Path:
    """Of a run that nobody named: after the recipe or, for your own photos, after their folder."""
    name = Path(recipe.data).resolve().name or "photos" if recipe.name == OWN_PHOTOS else recipe.name.replace("/", "-")
    return Path("runs") / name


def _for_photos(
    recipe: Recipe, given: Collection[str], folder: Path, *, hours: float | None, device: str, resume: bool
) -> Recipe:
    """The recipe with what was not given chosen; a run that is there already keeps what was chosen for it."""
    if resume and (folder / "recipe.json").is_file():
        before = train.recipe_of(folder)
        settings = {name: value for name, value in recipe.settings.items() if name in given}
        fields = {name: getattr(recipe, name) for name in given if name in _FIELDS}
        return dataclasses.replace(before, settings={**before.settings, **settings}, **fields)
    train.check_run(recipe, folder, resume=resume)  # before any step is timed
    if set(given) >= CHOSEN:
        return recipe
    choice = train.choose_recipe(recipe, given, hours=hours, device=device)
    for reason in choice.reasons:
        print(reason, flush=True)
    return choice.recipe


def _recipe(base: str | Recipe, given: dict[str, Any]) -> Recipe:
    """A recipe, by name or as it is, with some fields of it, and settings of its method, changed."""
    recipe = base if isinstance(base, Recipe) else dataclasses.replace(find_recipe(base), name=base)
    if "method" in given:
        recipe = with_method(recipe, resolve_method(given["method"]))
    if given.get("init"):
        given = {**given, "init": os.fspath(given["init"])}
        recipe = with_init(recipe, given["init"])
    if "encoder" in given:
        recipe = with_encoder(recipe, given["encoder"])
    fields = _FIELDS - {"method"}
    known = method_settings(recipe.method)
    for word in given.keys() - {"method"}:
        if word not in fields and word not in known:
            raise UserError(f"{word}: neither the recipe nor {recipe.method} has it{nearest(word, [*fields, *known])}")
    changed = {word: value for word, value in given.items() if word in fields}
    settings = {word: value for word, value in given.items() if word in known and word not in fields}
    return dataclasses.replace(recipe, settings={**recipe.settings, **settings}, **changed)
