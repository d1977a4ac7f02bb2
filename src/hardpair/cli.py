"""The command line: verbs and their wiring, nothing more.

Heavy imports wait inside the verbs, so that help and mistakes answer at once.
"""

import io
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hardpair.arguments import parse
from hardpair.errors import UserError, after_a_stop, in_words, nearest
from hardpair.machine import prepare_to_compute
from hardpair.options import Evaluate, Pack, Place, Plan, Recipes, Report

HELP = """hardpair: learn image representations without labels, and prove how good they are

  hardpair pretrain [RECIPE] [--field value …]    train an encoder; without RECIPE, the demo on bundled photos
  hardpair plan [RECIPE] [--gpus N …]             what that will need: work, memory, disk, time; nothing is run
  hardpair evaluate RUN [--protocol …]            score its encoder, and a randomly initialised one of the same shape
  hardpair report RUN                             tables, curves and one page to look at
  hardpair compare --methods …                    methods side by side under the same conditions, one table and figure
  hardpair ablate tau|mining|gradient             the paper's ablations, over seeds, one table and figure each
  hardpair recipes [NAME]                         what can be trained, by name
  hardpair pack PHOTOS PACKED                     decode a set too large for memory once; then --data PACKED
  hardpair doctor [--data …]                      check this machine and a data set

Each verb explains itself: hardpair pretrain --help"""


def pretrain(arguments: Sequence[str]) -> int:
    """Train an encoder."""
    from hardpair.recipes.command import parse_recipe

    recipe, place = parse_recipe(arguments, Place, parse)
    run = place.run or Path("runs") / recipe.name.replace("/", "-")
    if place.checkpoint_every < 1:
        raise UserError(f"checkpoint_every: must be at least 1, not {place.checkpoint_every}")
    from hardpair import distributed
    from hardpair.train import pretrain as train

    prepare_to_compute(place.threads)
    outcome = train(
        recipe,
        run,
        resume=place.resume,
        data_root=place.data_root,
        device=place.device,
        checkpoint_every=place.checkpoint_every,
        shard=place.shard,
        compiled=place.compile,
    )
    if outcome.status == "stopped":
        words = f"stopped at step {outcome.step}; the same command with --resume goes on from there"
    else:
        words = f"{run}: finished; {next_step(run, labelled=outcome.labelled)}"
    if distributed.is_main():
        print(words)
    return 128 + (outcome.signal or 0) if outcome.status == "stopped" else 0


def next_step(run: Path, *, labelled: bool) -> str:
    """What to do with a finished run."""
    if labelled:
        return f"evaluate it with: hardpair evaluate {run}"
    return f"its images have no labels to evaluate with, see what it learned with: hardpair report {run}"


def plan(arguments: Sequence[str]) -> int:
    """Say what a training will need."""
    from hardpair.recipes.command import parse_recipe

    recipe, options = parse_recipe(arguments, Plan, parse, verb="plan")
    from hardpair.train.plan import Gpus, make_plan
    from hardpair.train.plan_words import plan_json, plan_text

    gpus = Gpus(options.gpus, options.tflops, options.memory * 1e9, options.shard)
    made = make_plan(recipe, gpus, images=options.images)
    print(json.dumps(plan_json(made), indent=2) if options.json else plan_text(made))
    return 0


def evaluate(arguments: Sequence[str]) -> int:
    """Score an encoder."""
    options = parse(Evaluate, arguments, "hardpair evaluate")
    from hardpair import distributed
    from hardpair.evaluate import evaluate_run
    from hardpair.evaluate.command import settings_from
    from hardpair.train import pick_device
    from hardpair.train.group import process_group

    prepare_to_compute(options.threads)
    device = pick_device(options.device)
    with process_group(device):
        evaluate_run(
            options.run,
            options.protocol,
            settings=settings_from(options),
            on=options.on,
            data=options.data,
            size=options.image_size,
            data_root=options.data_root,
            device=device,
            say=print if distributed.is_main() else lambda _: None,
        )
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write the page."""
    options = parse(Report, arguments, "hardpair report")
    from hardpair.report import summary_table, write_paper, write_report

    if not options.run:
        raise UserError("run: give at least one folder of a run")
    if options.paper:
        print(write_paper(options.run, options.out))
        print(f"page: {options.out}")
        return 0
    for run in options.run:
        print(summary_table(run))
        print(f"page: {write_report(run)}")
    return 0


def compare(arguments: Sequence[str]) -> int:
    """Put methods side by side."""
    from hardpair.compare.options import Compare

    options = parse(Compare, arguments, "hardpair compare")
    from hardpair.compare.run import compare_methods

    prepare_to_compute(options.threads)
    return ended(compare_methods(options, shlex.join(["hardpair", "compare", *arguments])))


def ablate(arguments: Sequence[str]) -> int:
    """Repeat an ablation of the paper."""
    from hardpair.ablate.options import Ablate

    options = parse(Ablate, arguments, "hardpair ablate")
    from hardpair.ablate.run import run_ablation

    prepare_to_compute(options.threads)
    return ended(run_ablation(options, shlex.join(["hardpair", "ablate", *arguments])))


def ended(stopped_by: int | None) -> int:
    """Exit code of a verb that a signal may have stopped among its runs."""
    if stopped_by is not None:
        print("stopped; the same command goes on from there")
        return 128 + stopped_by
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


def pack(arguments: Sequence[str]) -> int:
    """Decode a folder once for all."""
    options = parse(Pack, arguments, "hardpair pack")
    from hardpair.data.pack import run_pack

    return run_pack(options)


def doctor(arguments: Sequence[str]) -> int:
    """Check the machine."""
    from hardpair.doctor.options import Doctor

    options = parse(Doctor, arguments, "hardpair doctor")
    from hardpair.doctor.run import run_doctor

    prepare_to_compute(threads=0)
    return run_doctor(options)


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "pretrain": pretrain,
    "plan": plan,
    "evaluate": evaluate,
    "report": report,
    "compare": compare,
    "ablate": ablate,
    "recipes": recipes,
    "pack": pack,
    "doctor": doctor,
}


def main() -> None:
    """Run a verb; a user's mistake is one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be text
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        try:
            sys.exit(run_verb(sys.argv[1:]))
        finally:
            sys.stdout.flush()  # here and not at exit, where nobody could catch what comes of it
    except KeyboardInterrupt:
        print(f"hardpair: {after_a_stop(*sys.argv[1:2])}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `| head` has seen enough; nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if (words := in_words(error)) is None:
            raise
        print(f"hardpair: {words}", file=sys.stderr)
        sys.exit(2)


def run_verb(words: Sequence[str]) -> int:
    """Do what the first word says, with the others."""
    if not words or words[0] in ("-h", "--help"):
        print(HELP)
        return 0 if words else 2
    verb, *arguments = words
    if verb == "--version":
        from hardpair import __version__

        print(f"hardpair {__version__}")
        return 0
    if verb not in VERBS:
        raise UserError(f"there is no verb {verb!r}{nearest(verb, VERBS)}")
    # What torchrun says, read here: the module that knows about it takes seconds to import.
    if verb not in ("pretrain", "evaluate") and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"{verb}: works in one process; start it without torchrun")
    return VERBS[verb](arguments)
