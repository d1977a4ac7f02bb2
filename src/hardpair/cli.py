"""The command line: verbs and their wiring, nothing more.

Heavy imports wait inside the verbs, so that help and mistakes answer at once.
"""

import json
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from hardpair.arguments import parse
from hardpair.errors import UserError, nearest

HELP = """hardpair: learn image representations without labels, and prove how good they are

  hardpair pretrain [RECIPE] [--field value …]    train an encoder; without RECIPE, the demo on bundled photos
  hardpair evaluate RUN [--protocol …]            judge its encoder, a random one beside it
  hardpair report RUN                             tables, curves and one page to look at
  hardpair compare --methods …                    methods side by side under the same conditions, one table and figure
  hardpair recipes [NAME]                         what can be trained, by name

Each verb explains itself: hardpair pretrain --help"""


@dataclass(frozen=True)
class Place:
    """Where and how to run; none of it changes what is learned, but for the number of threads in the last bits.

    Args:
        run: folder of the run; runs/RECIPE when not given.
        resume: continue from the last checkpoint if the run is there, else start it.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
        checkpoint_every: steps between checkpoints.
    """

    run: Path | None = None
    resume: bool = False
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0
    checkpoint_every: int = 200


@dataclass(frozen=True)
class Evaluate:
    """Judge the encoder of a run on labelled images, with a random encoder of the same shape beside it.

    Args:
        run: folder of the run.
        protocol: which protocols.
        data: labelled images; those of the run when not given.
        k: neighbours that vote, in knn.
        temperature: of the votes, in knn.
        on: "test", or "validation": a fifth of the training images, for every choice you make.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    run: tyro.conf.Positional[Path]
    protocol: tuple[Literal["knn", "linear"], ...] = ("knn", "linear")
    data: str | None = None
    k: int = 200
    temperature: float = 0.1
    on: Literal["test", "validation"] = "test"
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0


@dataclass(frozen=True)
class Report:
    """Print the scores of a run and write its page, RUN/report.html.

    Args:
        run: folder of the run.
    """

    run: tyro.conf.Positional[Path]


@dataclass(frozen=True)
class Recipes:
    """What can be trained, by name.

    Args:
        name: explain this one: what it is, its cost, the score to expect, every setting.
    """

    name: tyro.conf.Positional[str | None] = None


def pretrain(arguments: Sequence[str]) -> int:
    """Train an encoder."""
    from hardpair.recipes.command import parse_recipe
    from hardpair.train import pretrain as train

    recipe, place = parse_recipe(arguments, Place, parse)
    run = place.run or Path("runs") / recipe.name.replace("/", "-")
    if place.checkpoint_every < 1:
        raise UserError(f"checkpoint_every: must be at least 1, not {place.checkpoint_every}")
    use_threads(place.threads)
    outcome = train(
        recipe,
        run,
        resume=place.resume,
        data_root=place.data_root,
        device=place.device,
        checkpoint_every=place.checkpoint_every,
    )
    if outcome.status == "stopped":
        print(f"stopped at step {outcome.step}; the same command with --resume goes on from there")
        return 128 + (outcome.signal or 0)
    print(f"{run}: finished; judge it with: hardpair evaluate {run}")
    return 0


def evaluate(arguments: Sequence[str]) -> int:
    """Judge an encoder."""
    options = parse(Evaluate, arguments, "hardpair evaluate")
    from hardpair.evaluate import evaluate_run
    from hardpair.train import pick_device

    use_threads(options.threads)
    evaluate_run(
        options.run,
        options.protocol,
        settings={"knn": {"k": options.k, "temperature": options.temperature}},
        on=options.on,
        data=options.data,
        data_root=options.data_root,
        device=pick_device(options.device),
        say=print,
    )
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write the page."""
    options = parse(Report, arguments, "hardpair report")
    from hardpair.report import summary_table, write_report

    print(summary_table(options.run))
    print(f"page: {write_report(options.run)}")
    return 0


def compare(arguments: Sequence[str]) -> int:
    """Put methods side by side."""
    from hardpair.compare.options import Compare

    options = parse(Compare, arguments, "hardpair compare")
    from hardpair.compare.run import compare_methods

    use_threads(options.threads)
    signal = compare_methods(options, shlex.join(["hardpair", "compare", *arguments]))
    if signal is not None:
        print("stopped; the same command goes on from there")
        return 128 + signal
    return 0


def recipes(arguments: Sequence[str]) -> int:
    """List the recipes, or explain one."""
    options = parse(Recipes, arguments, "hardpair recipes")
    from hardpair.recipes import RECIPES, describe_recipe, find_recipe

    if options.name is not None:
        print(f"{describe_recipe(options.name)}\n")
        print(json.dumps(find_recipe(options.name).to_json(), indent=2))
        return 0
    for name, recipe in RECIPES.items():
        size = f"{recipe.encoder}, width {recipe.width:g}, {recipe.epochs} epochs, batch {recipe.batch_size}"
        print(f"{name:20} {size:45} {describe_recipe(name).splitlines()[0]}")
    return 0


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "pretrain": pretrain,
    "evaluate": evaluate,
    "report": report,
    "compare": compare,
    "recipes": recipes,
}


def main() -> None:
    """Run a verb; a user's mistake is one line and exit code 2."""
    arguments = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP)
        sys.exit(0 if arguments else 2)
    try:
        sys.exit(run_verb(arguments[0], arguments[1:]))
    except KeyboardInterrupt:
        print("hardpair: stopped at once; the last checkpoint is intact", file=sys.stderr)
        sys.exit(130)
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if (words := in_words(error)) is None:
            raise
        print(f"hardpair: {words}", file=sys.stderr)
        sys.exit(2)


def in_words(error: Exception) -> str | None:
    """What the user can mend, in one line; None where the mistake is ours and a traceback is right."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):  # a full disk, a folder that may not be read
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    if isinstance(error, MemoryError) or "out of memory" in str(error) or "can't allocate memory" in str(error):
        return "out of memory; lower batch_size, image_size or width"
    return None


def run_verb(verb: str, arguments: Sequence[str]) -> int:
    """Do what the verb says."""
    if verb == "--version":
        from hardpair import __version__

        print(f"hardpair {__version__}")
        return 0
    if verb not in VERBS:
        raise UserError(f"there is no verb {verb!r}{nearest(verb, VERBS)}")
    return VERBS[verb](arguments)


def use_threads(count: int) -> None:
    """Set torch's threads, where asked to."""
    if count < 0:
        raise UserError(f"threads: must be 0 (torch's choice) or more, not {count}")
    if count:
        import torch

        torch.set_num_threads(count)


if __name__ == "__main__":
    main()
