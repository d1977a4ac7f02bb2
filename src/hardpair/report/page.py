"""The page of a run: one HTML file that holds everything it shows and asks nothing of the network."""

from pathlib import Path

from hardpair.files import write_atomically
from hardpair.report.details import details, how_to_read
from hardpair.report.files import Run, read_run
from hardpair.report.markup import Html, element, head, join
from hardpair.report.opening import opening
from hardpair.report.pictures import neighbours, pairs
from hardpair.report.scores import scores
from hardpair.report.training import curves, warnings


def write_report(run: Path) -> Path:
    """Write `report.html` into the run folder and return where it is; raises UserError where there is no run."""
    target = run / "report.html"
    write_atomically(target, render(read_run(run)).encode())
    return target


def render(run: Run) -> str:
    """The whole page as text, in the order in which a reader asks."""
    parts = (scores, curves, warnings, neighbours, pairs, how_to_read, details)
    body = element("body", opening(run), element("main", *(part(run) for part in parts)), _footer())
    return "<!doctype html>\n" + element("html", head(run.name, "page.css"), body, lang="en-GB") + "\n"


def _footer() -> Html:
    return element("footer", join("Made by hardpair from the files of this run. It works offline."))
