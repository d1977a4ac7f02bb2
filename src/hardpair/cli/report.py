"""`hardpair report`: tables and pages from the files of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import UserError


@dataclass(frozen=True)
class Report:
    """Print the scores of a run and write its page, RUN/report.html.

    Args:
        run: folder of the run; several with --paper.
        paper: the paper's tables instead, published figures and those of the runs, written to OUT.
        out: page of --paper.
    """

    run: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …")]
    paper: bool = False
    out: Path = Path("runs/paper.html")


def main(arguments: Sequence[str]) -> int:
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
