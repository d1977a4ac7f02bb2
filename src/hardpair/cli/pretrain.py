"""`hardpair pretrain`: train an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hardpair.cli.recipe_arguments import given_names, parse_recipe


@dataclass(frozen=True)
class Pretrain:
    """Where and how to run. Results are unchanged, up to floating-point rounding.

    Args:
        hours: of training, for the recipe that is chosen for --data when no RECIPE is given; about one when not given.
        run: folder of the run; runs/RECIPE or, for photos without a RECIPE, runs/ and the name of their folder.
        resume: continue from the last checkpoint if the run is there, else start it. With more --epochs than the run
            has, it goes on with the schedule of the longer run.
        skip_broken: share of unreadable files that may be left out, such as 0.2; up to 5 % always may.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
        checkpoint_every: steps between checkpoints.
        shard: cut weights, averages and optimiser state among torchrun's processes (FSDP2) instead of giving each all
            of them; slower, for encoders that one GPU cannot hold.
        compile: use torch.compile for the encoders. A check on the first batch compares loss and gradients with those
            of plain code; where they do not agree up to rounding, or there is no C++ compiler, a line says so and the
            run goes on without. A resumed run keeps what it began with.
        tensorboard: write figures and pictures for TensorBoard into the folder "tensorboard" of the run; needs
            pip install 'hardpair[tensorboard]'.
    """

    hours: float | None = None
    run: Path | None = None
    resume: bool = False
    skip_broken: float = 0.0
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0
    checkpoint_every: int = 200
    shard: bool = False
    compile: bool = False
    tensorboard: bool = False


def main(arguments: Sequence[str]) -> int:
    """Train, and say what to do next."""
    recipe, options = parse_recipe(arguments, Pretrain, "pretrain", "Train an encoder without labels.")
    from hardpair import api, distributed

    run = api.train_recipe(recipe, given_names(arguments), **vars(options))
    assert run.outcome is not None  # it was trained just now
    if run.finished:
        words = f"{run.folder}: finished; {next_step(run.folder, labelled=run.outcome.labelled)}"
    else:
        words = f"stopped at step {run.outcome.step}; the same command with --resume goes on from there"
    if distributed.is_main():
        print(words)
    return 0 if run.finished else 128 + (run.outcome.signal or 0)


def next_step(run: Path, *, labelled: bool) -> str:
    """What to do with a finished run."""
    if labelled:
        return f"evaluate it with: hardpair evaluate {run}"
    return f"its images have no labels to evaluate with, see what it learned with: hardpair report {run}"
