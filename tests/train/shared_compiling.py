"""Compilers that stand in for the real one, also on several processes; a fork server imports this."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from shared_steps import photos, recipe_of

from hardpair import distributed
from hardpair.train import compiled
from hardpair.train.parallel import process_group
from hardpair.train.run_folder import Log
from hardpair.train.step import Stepper

Compiler = Callable[[Any, Any], Callable[..., Any]]


def as_it_is(calls: list[int]) -> Compiler:
    """Changes nothing, and counts how often its code is called."""

    def compiler(graph: Any, inputs: Any) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            calls.append(1)
            return graph(*arguments)

        return run

    return compiler


def failing(graph: Any, inputs: Any) -> Callable[..., Any]:
    """As compilers do, at length."""
    raise RuntimeError("out of luck\nin two lines" + " and many more" * 100)


def compile_together(folder: Path, case: str, broken: bool) -> None:
    """Every rank writes what it found and takes a step; on the last of them the compiler may be broken."""
    torch.set_num_threads(1)
    calls: list[int] = []
    with process_group(torch.device("cpu")):
        last = distributed.rank() == distributed.world_size() - 1
        compiled.BACKEND = failing if broken and last else as_it_is(calls)
        stepper = Stepper(recipe_of(case), photos(), torch.device("cpu"))
        words = compiled.compile_if_wanted(stepper, Log(folder / "log.jsonl"), 0, wanted=True)
        calls.clear()
        stepper.method.train()
        with torch.compiler.set_stance("fail_on_recompile"):
            assert stepper.take(0).sound
        (folder / f"{distributed.rank()}.txt").write_text(f"{words}\n{len(calls)}")
