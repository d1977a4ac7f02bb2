"""Curves for whichever values a method logs."""

import ast
import math
from pathlib import Path

from fake_run import log, write_lines

import hardpair.report
from hardpair.report import write_report
from hardpair.report.training import draw, panels, series


def steps(count: int, **values: float) -> list[dict[str, object]]:
    return [{"event": "step", "step": step, "epoch": step / 10, **values} for step in range(count)]


def test_known_values_come_in_their_order_and_others_follow() -> None:
    shown, folded = panels([line for line in log() if line["event"] == "step"])
    assert [panel.key for panel in shown] == ["loss", "mined", "spread", "rank", "learning_rate", "images_per_second"]
    assert [panel.key for panel in folded] == ["positive", "negative", "empty", "gradient_norm", "data_wait"]
    other, _ = panels(steps(3, loss=1.0, queue_accuracy=0.5))
    assert [panel.title for panel in other] == ["Loss", "Queue accuracy"]


def test_a_long_log_is_thinned_to_means() -> None:
    x, y, across = series([{"step": step, "loss": step % 2} for step in range(4000)], "loss")
    assert across == "step"
    assert len(x) == 400
    assert set(y) == {0.5}


def test_a_value_that_is_not_finite_leaves_a_gap_and_a_warning(run: Path) -> None:
    lines = [
        {"event": "step", "step": step, "epoch": 1.0 * step, "loss": loss} for step, loss in enumerate((2, 1, math.nan))
    ]
    _, y, _ = series(lines, "loss")
    assert math.isnan(y[-1])
    write_lines(run / "log.jsonl", lines)
    html = write_report(run).read_text(encoding="utf-8")
    assert "loss was not a finite number in 1 logged step" in html
    assert ">not finite<" in html


def test_a_curve_takes_its_colours_and_type_from_the_page() -> None:
    svg = draw([1, 2, 3], [3, 2, 1], "epoch", prefix="one")
    assert svg.startswith('<svg viewBox="0 0 320 168"')
    assert "var(--curve)" in svg
    assert "#0000f" not in svg
    assert "font-family" not in svg
    assert "http" not in svg


def test_one_point_is_enough() -> None:
    assert "<path" in draw([1], [3], "epoch", prefix="one")


def test_the_report_reads_files_only() -> None:
    """It knows nothing of the package but its error, and never waits for torch to load."""
    for path in Path(next(iter(hardpair.report.__path__))).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not name.startswith("torch")
                assert not name.startswith("hardpair") or name.startswith(
                    ("hardpair.report", "hardpair.errors", "hardpair.files", "hardpair.text")
                )
