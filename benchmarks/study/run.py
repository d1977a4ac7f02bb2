"""Which settings of hard negative pair mining work at small scale? One line of results per variant and seed.

    python benchmarks/study/run.py base --seeds 3
    python benchmarks/study/run.py map head mining
    python benchmarks/study/run.py map --table                   the results so far, as a table

Each variant (groups.py) is trained on 10,000 class-balanced training images of CIFAR-10 without their labels, then
evaluated by knn and linear, fitted on those images and tested on 10,000 *other training images*: the test set has no
part in any choice. The lines go to results/study.jsonl, one for each variant's name and seed. Stop it when you like;
the next start goes on with what is missing. Started twice, the same command shares the runs out.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import tyro
from groups import GROUPS

from hardpair.data import Images, hold_out, open_images
from hardpair.evaluate import knn, linear
from hardpair.evaluate.features import outputs
from hardpair.files import append_json, commit
from hardpair.models import load_encoder
from hardpair.report.run_files import read_run
from hardpair.sweep.results import OverSeeds
from hardpair.sweep.runner import Sweep
from hardpair.sweep.tables import markdown_table
from hardpair.sweep.variants import Job, Variant, plan_jobs
from hardpair.train.cost import forward_equivalents

CPU = torch.device("cpu")
LOGGED = ("mined", "empty", "rank", "positive", "loss")
COLUMNS = {
    "linear": "{:.1f}",
    "knn": "{:.1f}",
    "mined": "{.mean:.1%}",
    "rank": "{.mean:.0f}",
    "positive": "{.mean:.2f}",
    "false_negatives": "{.mean:.1%}",
}


@dataclass(frozen=True)
class Options:
    """The study of HNPM's settings.

    Args:
        groups: which groups of variants, of those in groups.py.
        seeds: how many, from 0.
        table: print the results so far instead of training.
        data_root: where CIFAR-10 lies.
        out: file of the results.
        runs: folder of runs that are not finished.
    """

    groups: tyro.conf.Positional[tuple[str, ...]]
    seeds: int = 1
    table: bool = False
    data_root: Path = Path("data")
    out: Path = Path("results/study.jsonl")
    runs: Path = Path("runs/study")


@dataclass(frozen=True)
class StudyScores:
    """A line of the file for each run, whose folder is then removed."""

    file: Path
    train: Images
    others: Images  # to evaluate on

    def read(self, job: Job) -> dict[str, Any] | None:
        """The line of this variant and seed."""
        same = (line for line in read_lines(self.file) if line["seed"] == job.seed)
        return next((line for line in same if line["variant"] == job.variant.label), None)

    def missing(self, job: Job, step: int) -> bool:  # noqa: ARG002
        """Runs are evaluated at the end only."""
        return True

    def evaluate(self, job: Job, step: int) -> None:  # noqa: ARG002
        """Score the encoder; with that goes what the log and the mined pairs say."""
        run, encoder = read_run(job.run), load_encoder(job.run)
        fitted, tested = ((outputs(encoder, images, CPU), images.labels) for images in (self.train, self.others))
        line = {
            "variant": job.variant.label,
            "seed": job.seed,
            "epochs": job.recipe.epochs,
            "forwards": forward_equivalents(job.recipe, self.train) * job.recipe.epochs,
            "linear": linear(fitted, tested)["top1"],
            "knn": knn(fitted, tested)["top1"],
            **{name: run.steps[-1][name] for name in LOGGED if name in run.steps[-1]},
            "false_negatives": (run.pairs or {}).get("false_negatives"),
            "seconds": sum(event["seconds"] for event in run.events("stop", "end")),
            "threads": torch.get_num_threads(),
            "commit": commit(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        append_json(self.file, line)
        print(f"  linear {line['linear']:.1f}  knn {line['knn']:.1f}  {line['seconds']:.0f} s", flush=True)
        shutil.rmtree(job.run)


def split(data_root: Path, data: str) -> tuple[Images, Images]:
    """The images to learn from, and as many others of the training set to evaluate on."""
    train = open_images(data, "train", size=32, root=data_root)
    whole = open_images("cifar10", "train", size=32, root=data_root)
    assert whole.labels is not None
    rest, _ = hold_out(whole.labels, share=len(train) / len(whole), seed=0)  # the draw that made `train`
    others = whole.select(rest)
    assert others.labels is not None
    _, evaluated = hold_out(others.labels, share=len(train) / len(others), seed=1)
    return train, others.select(evaluated)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """All results so far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(lines: list[dict[str, Any]], variants: list[Variant]) -> str:
    """Mean over seeds, for the scores with their deviation."""
    rows = [["variant", "seeds", "forwards", *COLUMNS]]
    for variant in variants:
        if own := [line for line in lines if line["variant"] == variant.label]:
            known = {name: tuple(line[name] for line in own if line.get(name) is not None) for name in COLUMNS}
            cells = [form.format(OverSeeds(known[name])) if known[name] else "" for name, form in COLUMNS.items()]
            rows.append([variant.label, str(len(own)), f"{own[0]['forwards']:.0f}", *cells])
    return markdown_table(rows)


def main() -> int:
    """Run what is missing, or print the table."""
    options = tyro.cli(Options, description=__doc__)
    for group in options.groups:
        if group not in GROUPS:
            sys.exit(f"groups: there is no {group!r}; there are {', '.join(GROUPS)}")
    variants = [variant for group in options.groups for variant in GROUPS[group]]
    if not options.table:
        train, others = split(options.data_root, variants[0].recipe.data)
        jobs = plan_jobs(variants, seeds=options.seeds, out=options.runs, images=len(train))
        scores = StudyScores(options.out, train, others)
        sweep = Sweep(jobs, scores, lambda _: None, data_root=options.data_root, device="cpu")
        if sweep.run_to_end() is not None:
            raise KeyboardInterrupt
    print(table(read_lines(options.out), variants))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; start it again to go on")
