"""Do a comparison: run what is missing, and keep its table and figure up to date."""

import dataclasses
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardpair.compare.figure import draw
from hardpair.compare.known import Known, known_result, read_known
from hardpair.compare.options import Compare
from hardpair.compare.plan import Job, chosen_methods, measure_costs, plan_jobs, shared_conditions
from hardpair.compare.results import Result, gather, missing_scores, read_result
from hardpair.compare.table import About, markdown, plain_text
from hardpair.compare.work import refuse_other_runs, work_through
from hardpair.data import Images, open_images
from hardpair.data.layout import why_unlabelled
from hardpair.errors import UserError
from hardpair.evaluate import Settings, evaluate_run
from hardpair.evaluate.semi import FewLabels
from hardpair.files import commit, write_atomically
from hardpair.train import pick_device, pretrain
from hardpair.train.cost import forward_equivalents
from hardpair.train.signals import stop_on_signals


def compare_methods(options: Compare, command: str) -> int | None:
    """Train and judge every method; returns the signal that stopped it, or None at the end."""
    methods, device = chosen_methods(options), pick_device(options.device)
    shared = shared_conditions(options)
    images = open_labelled(shared["data"], shared["image_size"], on=options.on, root=options.data_root)
    known = read_known(options.known, on=options.on, facts=images.facts())
    print("measuring what each method costs", flush=True)
    costs = measure_costs(options, methods, lambda recipe: forward_equivalents(recipe, images, device=device))
    jobs = plan_jobs(options, costs)
    refuse_other_runs(options.out, jobs)
    return Comparison(options, command, images.facts(), jobs, known).run_to_end()


def open_labelled(data: str, size: int, *, on: str, root: Path) -> Images:
    """The training images; anything that would keep the encoders from being judged shows here, before any runs."""
    train = open_images(data, "train", size=size, root=root)
    judged = open_images(data, "test", size=size, root=root) if on == "test" else train
    for images in (train, judged):
        if images.labels is None:
            why = why_unlabelled(images.files)
            raise UserError(f"{images.name}: has no labels to judge with{why}; give a labelled set with --data")
    return train


class Comparison:
    """The runs of a comparison, and what is known of them."""

    def __init__(self, options: Compare, command: str, facts: dict[str, Any], jobs: list[Job], known: Known) -> None:
        self.options, self.command, self.facts, self.jobs, self.known = options, command, facts, jobs, known
        self.results: dict[Path, Result] = {}
        self.written = -1  # how many of them table and figure show
        self._look()

    def run_to_end(self) -> int | None:
        """Every run that is missing, one after the other, until done or told to stop by a signal."""
        signal = work_through(self.jobs, self._known, self._run, lambda job: job.forwards)
        if signal is not None:
            return signal
        if self.written != len(self.results):
            self._write()
        print(f"\n{plain_text(self._about(), gather(self.jobs, self.results))}\n")
        print(f"table: {self.options.out / 'table.md'}  figure: {self.options.out / 'figure.png'}")
        return None

    def _look(self) -> None:
        """What there is by now, of this process and of others that share the work."""
        for job in self.jobs:
            self._known(job)

    def _known(self, job: Job) -> bool:
        """Whether a run is finished and judged."""
        if job.run not in self.results:
            result = read_result(job, **self._wanted()) or known_result(self.known, job, self.options.labels)
            if result is not None:
                self.results[job.run] = result
        return job.run in self.results

    def _run(self, job: Job) -> int | None:
        """Train, judge, write down; the signal that came in between, if any."""
        options = self.options
        outcome = pretrain(job.recipe, job.run, resume=True, data_root=options.data_root, device=options.device)
        if outcome.status == "stopped":
            return outcome.signal
        with stop_on_signals() as request:
            self._judge(job)
            self._write()
        return request.signal

    def _judge(self, job: Job) -> None:
        """By whatever it has not been judged by."""
        options = self.options
        protocols, shares = missing_scores(job, **self._wanted())
        evaluate_run(
            job.run,
            [*protocols, "semi"] if shares else protocols,
            settings=Settings(few_labels=FewLabels(shares)),
            on=options.on,
            data_root=options.data_root,
            device=pick_device(options.device),
            say=print,
        )

    def _wanted(self) -> dict[str, Any]:
        """What a result must be of."""
        return {"labels": self.options.labels, "on": self.options.on, "facts": self.facts}

    def _write(self) -> None:
        """Table, figure and all values, as far as they are known."""
        self._look()
        out, about, rows = self.options.out, self._about(), gather(self.jobs, self.results)
        out.mkdir(parents=True, exist_ok=True)
        content = {**dataclasses.asdict(about), "rows": [row.to_json() for row in rows]}
        write_atomically(out / "compare.json", json.dumps(content, indent=2).encode())
        write_atomically(out / "table.md", markdown(about, rows).encode())
        for kind, picture in draw(about, rows).items():
            write_atomically(out / f"figure.{kind}", picture)
        self.written = len(self.results)

    def _about(self) -> About:
        options = self.options
        return About(
            command=self.command,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            commit=commit(),
            family=options.family,
            methods=tuple(chosen_methods(options)),
            conditions={**shared_conditions(options), "batch_size": {j.method: j.recipe.batch_size for j in self.jobs}},
            data=self.facts,
            labels=options.labels,
            on=options.on,
            unit=options.unit,
            budgets=tuple(sorted(set(options.budget))),
            seeds=options.seeds,
            runs=len(self.jobs),
            runs_done=len(self.results),
            known=dict(Counter(result.source for result in self.results.values() if result.source)),
        )
