"""The page of a run: one HTML file that holds everything it shows and asks nothing of the network."""

from importlib import resources
from pathlib import Path

from hardpair.files import write_atomically
from hardpair.report.details import details, how_to_read
from hardpair.report.files import Run, read_run
from hardpair.report.markup import Html, element, join
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
    return "<!doctype html>\n" + element("html", _head(run), body, lang="en-GB") + "\n"


def _head(run: Run) -> Html:
    style = resources.files("hardpair.report").joinpath("page.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{run.name} · hardpair"),
        # Without an icon of its own a page makes the browser ask for one.
        element("link", rel="icon", href="data:,"),
        element("style", Html(style)),
    )


def _footer() -> Html:
    return element("footer", join("Made by hardpair from the files of this run. It works offline."))
