"""The paper's seven tables as published, and beneath each, in tables of their own, what runs have measured."""

from collections.abc import Sequence
from pathlib import Path

from hardpair.files import write_atomically
from hardpair.report.paper.entries import read_entries
from hardpair.report.paper.grid import parts
from hardpair.report.paper.page import render
from hardpair.report.paper.text import plain_text

__all__ = ["write_paper"]


def write_paper(runs: Sequence[Path], target: Path) -> str:
    """Write the page to `target` and return the same tables as text; raises UserError where a folder is no run."""
    entries, notes = read_entries(runs)
    shown = parts(entries)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, render(shown, notes).encode())
    return plain_text(shown, notes)
