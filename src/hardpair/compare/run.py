"""Do a comparison: run what is missing, and keep its table and figure up to date."""

import dataclasses
import json
import time
from datetime import UTC, datetime
from typing import Any

from hardpair.compare.figure import draw
from hardpair.compare.options import Compare
from hardpair.compare.plan import Job, chosen_methods, measure_costs, plan_jobs, shared_conditions
from hardpair.compare.results import JUDGED, gather, read_result
from hardpair.compare.table import About, markdown, plain_text
from hardpair.data import Images, open_images
from hardpair.errors import UserError
from hardpair.evaluate import evaluate_run
from hardpair.files import commit, write_atomically
from hardpair.train import pick_device, pretrain
from hardpair.train.cost import forward_equivalents
from hardpair.train.signals import stop_on_signals


def compare_methods(options: Compare, command: str) -> int | None:
    """Train and judge every method; returns the signal that stopped it, or None at the end."""
    methods, device = chosen_methods(options), pick_device(options.device)
    images = open_labelled(options)
    if options.out.exists() and not options.out.is_dir():
        raise UserError(f"{options.out}: is a file; choose another place with --out")
    print("measuring what each method costs", flush=True)
    costs = measure_costs(options, methods, lambda recipe: forward_equivalents(recipe, images, device=device))
    return Comparison(options, command, images.facts(), plan_jobs(options, costs)).run_to_end()


def open_labelled(options: Compare) -> Images:
    """The training images; anything that would keep the encoders from being judged shows here, before any runs."""
    shared = shared_conditions(options)
    data, size = shared["data"], shared["image_size"]
    train = open_images(data, "train", size=size, root=options.data_root)
    judged = open_images(data, "test", size=size, root=options.data_root) if options.on == "test" else train
    if train.labels is None or judged.labels is None:
        raise UserError(f"{data}: has no labels to judge with; give a labelled set with --data")
    return train


class Comparison:
    """The runs of a comparison, and what is known of them."""

    def __init__(self, options: Compare, command: str, facts: dict[str, Any], jobs: list[Job]) -> None:
        self.options, self.command, self.facts, self.jobs = options, command, facts, jobs
        known = {job.run: read_result(job, on=options.on, facts=facts) for job in jobs}
        self.results = {run: result for run, result in known.items() if result is not None}
        self.seconds = self.forwards = 0.0  # what the runs of this process took, for the time left
        self.written = False

    def run_to_end(self) -> int | None:
        """Every run that is missing, one after the other, until done or told to stop by a signal."""
        for number, job in enumerate(self.jobs, start=1):
            done = job.run in self.results
            print(f"[{number}/{len(self.jobs)}] {job}{': done before' if done else self._time_left()}", flush=True)
            signal = None if done else self._run(job)
            if signal is not None:
                return signal
        if not self.written:
            self._write()
        print(f"\n{plain_text(self._about(), gather(self.jobs, self.results))}\n")
        print(f"table: {self.options.out / 'table.md'}  figure: {self.options.out / 'figure.png'}")
        return None

    def _run(self, job: Job) -> int | None:
        """Train, judge, write down; the signal that came in between, if any."""
        options, new, began = self.options, not job.run.exists(), time.monotonic()
        outcome = pretrain(job.recipe, job.run, resume=True, data_root=options.data_root, device=options.device)
        if outcome.status == "stopped":
            return outcome.signal
        with stop_on_signals() as request:
            self._judge(job)
            self._write()
        if new:  # what was begun earlier would make the estimate too good
            self.seconds += time.monotonic() - began
            self.forwards += job.forwards
        return request.signal

    def _judge(self, job: Job) -> None:
        options = self.options
        evaluate_run(
            job.run,
            JUDGED,
            on=options.on,
            data_root=options.data_root,
            device=pick_device(options.device),
            say=print,
        )
        result = read_result(job, on=options.on, facts=self.facts)
        assert result is not None
        self.results[job.run] = result

    def _time_left(self) -> str:
        """By what the runs so far took for their compute."""
        if not self.forwards:
            return ""
        left = sum(job.forwards for job in self.jobs if job.run not in self.results)
        minutes = left * self.seconds / self.forwards / 60
        return f"; about {_duration(minutes)} left for all"

    def _write(self) -> None:
        """Table, figure and all values, as far as they are known."""
        out, about, rows = self.options.out, self._about(), gather(self.jobs, self.results)
        out.mkdir(parents=True, exist_ok=True)
        content = {**dataclasses.asdict(about), "rows": [row.to_json() for row in rows]}
        write_atomically(out / "compare.json", json.dumps(content, indent=2).encode())
        write_atomically(out / "table.md", markdown(about, rows).encode())
        for kind, picture in draw(about, rows).items():
            write_atomically(out / f"figure.{kind}", picture)
        self.written = True

    def _about(self) -> About:
        options = self.options
        return About(
            command=self.command,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            commit=commit(),
            family=options.family,
            methods=tuple(chosen_methods(options)),
            conditions=shared_conditions(options),
            data=self.facts,
            on=options.on,
            unit=options.unit,
            budgets=tuple(sorted(set(options.budget))),
            seeds=options.seeds,
            runs=len(self.jobs),
            runs_done=len(self.results),
        )


def _duration(minutes: float) -> str:
    """Minutes, or hours where there are many."""
    if minutes < 90:
        return f"{max(1, round(minutes))} min"
    return f"{round(minutes) // 60} h {round(minutes) % 60:02d} min"
