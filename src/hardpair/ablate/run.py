"""Do an ablation: train what is missing, judge it on the way, and keep table and figure up to date."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardpair.ablate.figure import draw
from hardpair.ablate.options import Ablate
from hardpair.ablate.paper import published
from hardpair.ablate.plan import Job, base_recipe, plan_jobs
from hardpair.ablate.results import Result, gather, missing_protocols, read_result
from hardpair.ablate.table import About, finding, markdown, plain_text
from hardpair.compare.plan import given_conditions
from hardpair.compare.run import open_labelled
from hardpair.compare.work import refuse_other_runs, work_through
from hardpair.evaluate import evaluate_run
from hardpair.files import commit, write_atomically
from hardpair.train import Outcome, pick_device, pretrain
from hardpair.train.run_folder import stop_on_signals


def run_ablation(options: Ablate, command: str) -> int | None:
    """Train and judge every variant; returns the signal that stopped it, or None at the end."""
    recipe = base_recipe(options)
    pick_device(options.device)
    images = open_labelled(recipe.data, recipe.image_size, on=options.on, root=options.data_root)
    jobs = plan_jobs(options, len(images))
    refuse_other_runs(options.out, jobs)
    return Ablation(options, command, images.facts(), jobs).run_to_end()


class Ablation:
    """The runs of an ablation, and what is known of them."""

    def __init__(self, options: Ablate, command: str, facts: dict[str, Any], jobs: list[Job]) -> None:
        self.options, self.command, self.facts, self.jobs = options, command, facts, jobs
        self.results: dict[Path, Result] = {}
        self.written = -1  # how many of them table and figure show
        self._look()

    def run_to_end(self) -> int | None:
        """Every run that is missing, one after the other, until done or told to stop by a signal."""
        signal = work_through(self.jobs, self._known, self._run, lambda job: job.recipe.epochs)
        if signal is not None:
            return signal
        if self.written != len(self.results):
            self._write()
        name = self.options.out / self.options.which
        print(f"\n{plain_text(self._about(), gather(self.jobs, self.results))}\n")
        print(f"table: {name}.md  figure: {name}.png")
        return None

    def _look(self) -> None:
        """What there is by now, of this process and of others that share the work."""
        for job in self.jobs:
            self._known(job)

    def _known(self, job: Job) -> bool:
        """Whether a run is finished and judged."""
        if job.run not in self.results:
            result = read_result(job, on=self.options.on, facts=self.facts)
            if result is not None:
                self.results[job.run] = result
        return job.run in self.results

    def _run(self, job: Job) -> int | None:
        """Train up to each epoch that is still to be judged, judge, go on; the signal that came in between, if any."""
        for step in job.steps:
            if step != job.steps[-1] and not self._missing(job, step):
                continue
            outcome = self._train(job, step)
            if outcome.status == "stopped":
                return outcome.signal
            with stop_on_signals() as request:
                if outcome.step in job.steps:  # someone may have trained it further
                    self._judge(job, outcome.step)
            if request.signal is not None or outcome.status == "finished":
                return request.signal
        return None

    def _train(self, job: Job, step: int) -> Outcome:
        options = self.options
        return pretrain(
            job.recipe, job.run, resume=True, data_root=options.data_root, device=options.device, until=step
        )

    def _missing(self, job: Job, step: int) -> list[str]:
        return missing_protocols(job, step, on=self.options.on, facts=self.facts)

    def _judge(self, job: Job, step: int) -> None:
        """Score the encoder as it is after this step, where that is not done; write down what is finished."""
        options = self.options
        if protocols := self._missing(job, step):
            evaluate_run(
                job.run,
                protocols,
                on=options.on,
                data_root=options.data_root,
                device=pick_device(options.device),
                say=print,
            )
        if self._known(job):
            self._write()

    def _write(self) -> None:
        """Table, figure and all values, as far as they are known."""
        self._look()
        out, which, about = self.options.out, self.options.which, self._about()
        rows, figures = gather(self.jobs, self.results), published(which)
        out.mkdir(parents=True, exist_ok=True)
        values = [{**row.to_json(), "published": figures.get(row.variant.name)} for row in rows]
        content = {**dataclasses.asdict(about), "finding": finding(about, rows), "rows": values}
        write_atomically(out / f"{which}.json", json.dumps(content, indent=2).encode())
        write_atomically(out / f"{which}.md", markdown(about, rows).encode())
        for kind, picture in draw(about, rows).items():
            write_atomically(out / f"{which}.{kind}", picture)
        self.written = len(self.results)

    def _about(self) -> About:
        options, recipe = self.options, base_recipe(self.options)
        return About(
            which=options.which,
            command=self.command,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            commit=commit(),
            recipe=recipe.name,
            conditions=given_conditions(options, recipe),
            data=self.facts,
            epochs=recipe.epochs,
            on=options.on,
            seeds=options.seeds,
            runs=len(self.jobs),
            runs_done=len(self.results),
        )
