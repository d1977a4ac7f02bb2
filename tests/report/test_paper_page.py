"""The paper's tables as published, on the page and in the terminal."""

import re
from pathlib import Path
from typing import Any

import pytest
from paper_runs import for_every_table, tables

from hardpair.report.paper import write_paper

# Counted and added up from the paper's source, not from what the package holds.
PUBLISHED = {
    1: (8, 14, 1104.2, 2),
    2: (9, 17, 1451.4, 6),
    3: (4, 14, 995.7, 4),
    4: (12, 48, 3963.0, 16),
    5: (4, 28, 2237.5, 7),
    6: (4, 28, 2462.5, 8),
    7: (1, 4, 223.6, 1),
}
FIGURE = re.compile(r"\d+(?:\.\d)?†?(?: \(\d\.\d↑\))?")
CELL = re.compile(r"[^\s-]\S*(?: \S+)*")
SCROLLS = """[...document.querySelectorAll('.scroll')].map(box => {
  const name = box.querySelector('tbody th').getBoundingClientRect();
  box.scrollLeft = 1000;
  return [box.scrollWidth > box.clientWidth, box.scrollLeft > 0,
          Math.abs(box.querySelector('tbody th').getBoundingClientRect().left - name.left) < 1];
})"""
COLOURS = "['body', '.figures', '.figures td', '.measured .chip'].map(n => getComputedStyle(document.querySelector(n)))"


def test_the_folder_of_the_page_need_not_be_there(tmp_path: Path) -> None:
    write_paper([], tmp_path / "runs" / "new" / "paper.html")
    assert (tmp_path / "runs" / "new" / "paper.html").exists()


def test_every_published_figure_is_there(tmp_path: Path) -> None:
    write_paper([], tmp_path / "paper.html")
    shown = tables(tmp_path / "paper.html")
    html = (tmp_path / "paper.html").read_text(encoding="utf-8")
    assert list(shown) == list(PUBLISHED)
    for number, (rows, figures, total, bold) in PUBLISHED.items():
        ((kind, _, (headings, *lines)),) = shown[number]
        score_columns = [
            place for place, name in enumerate(headings) if place and not name.endswith(".") and name != "SK"
        ]
        cells = [line[place] for line in lines for place in score_columns]
        given = [cell for cell in cells if cell != "not given"]
        assert (kind, len(lines), len(given)) == ("published", rows, figures)
        assert all(FIGURE.fullmatch(cell) for cell in given)
        assert sum(float(re.split("[ †]", cell)[0]) for cell in given) == pytest.approx(total, abs=0.01)
        section = html[html.index(f'id="table-{number}"') :].split("</section>")[0]
        assert section.count("<strong>") == bold
    gains = re.findall(r"\((\d\.\d)↑\)", html)
    assert (len(gains), sum(map(float, gains))) == (9, pytest.approx(28.5))


def test_cells_that_the_paper_copied_wrongly_are_marked_and_put_right(tmp_path: Path) -> None:
    text = write_paper([], tmp_path / "paper.html")
    shown = tables(tmp_path / "paper.html")
    marked = {(n, row[0], row) for n, ((_, _, rows),) in shown.items() for row in rows if any("†" in c for c in row)}
    assert {(number, name) for number, name, _ in marked} == {(4, "BYOL"), (5, "BYOL")}
    (semi,), (transferred,) = ([row for n, _, row in marked if n == number] for number in (4, 5))
    assert semi == ("BYOL", "200", "2×", "✗", "250M", "71.2", "87.9†", "77.7", "92.5†")
    assert (transferred[3], shown[5][0][2][0][3]) == ("60.6†", "SUN397")
    for page in (text, (tmp_path / "paper.html").read_text(encoding="utf-8")):
        assert re.search(r"† Copied wrongly: .*89\.5 \(1 %\) and 93\.7 \(10 %\) for ResNet-200 2×", page)
        assert re.search(r"† Copied wrongly: .*62\.2 for SUN397", page)


def test_published_and_measured_figures_share_no_table(tmp_path: Path) -> None:
    write_paper(for_every_table(tmp_path), tmp_path / "paper.html")
    published: set[str] = set()
    measured: set[str] = set()
    for shown in tables(tmp_path / "paper.html").values():
        for place, (kind, title, (_, *rows)) in enumerate(shown):
            assert (kind == "published") == (place == 0) == title.startswith("Published")
            assert len(shown) > 1
            cells = {cell for row in rows for cell in row[1:]}
            (published if kind == "published" else measured).update(cells)
    assert not published & measured
    assert measured == {
        "–", "41.0 ± 0.0 (2)", "41.0 (1)", "20.5 ± 0.0 (2)", "20.5 (1)", "91.2 ± 0.0 (2)", "91.2 (1)", "45.6 ± 0.0 (2)",
        "45.6 (1)", "21.0 ± 0.0 (2)", "21.0 (1)", "10.5 ± 0.0 (2)", "10.5 (1)", "31.0 ± 0.0 (2)", "15.5 ± 0.0 (2)",
    }  # fmt: skip


def test_text_and_page_hold_the_same_tables(tmp_path: Path) -> None:
    text = write_paper(for_every_table(tmp_path), tmp_path / "paper.html")
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    rows = [row for shown in tables(tmp_path / "paper.html").values() for _, _, rows in shown for row in rows]
    place = 0
    for row in rows:  # in the same order; a long name goes on in the next lines
        place = next(at for at in range(place, len(lines)) if tuple(lines[at][1:]) == row[1:]) + 1
        assert row[0].startswith(lines[place - 1][0])
    figures = [line for line in lines if len(line) > 1 and not line[0].startswith("Table")]
    assert len(figures) == len(rows)
    assert max(map(len, text.splitlines())) <= 120


def test_columns_of_the_text_line_up(tmp_path: Path) -> None:
    text = write_paper(for_every_table(tmp_path), tmp_path / "paper.html")
    blocks = [block.splitlines() for block in text.split("\n\n") if "\n---" in block]
    assert len(blocks) == sum(map(len, tables(tmp_path / "paper.html").values()))
    for block in blocks:
        rule = next(place for place, line in enumerate(block) if line.startswith("---"))
        headings, *rows = (list(CELL.finditer(line)) for line in block[rule - 1 :] if len(line) == len(block[rule]))
        full = [row for row in rows if len(row) == len(headings)]
        assert len(full) >= 1
        for row in full:  # words begin where their heading begins, figures end where it ends
            pairs = list(zip(headings, row, strict=True))
            assert all(top.start() == cell.start() or top.end() == cell.end() for top, cell in pairs)


def test_the_page_in_a_browser(browser: Any, tmp_path: Path) -> None:
    target = tmp_path / "paper.html"
    write_paper(for_every_table(tmp_path), target)
    requests: list[str] = []
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.on("request", lambda request: requests.append(request.url))
    page.goto(target.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    wide = [(moved, stays) for wider, moved, stays in page.evaluate(SCROLLS) if wider]
    assert len(wide) >= 5
    assert all(moved and stays for moved, stays in wide)  # inside its box, and the names stay in sight
    colours = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours.append(page.evaluate(f"{COLOURS}.map(s => s.backgroundColor + s.color)"))
    assert all(light != dark for light, dark in zip(*colours, strict=True))
    page.close()
    assert [url for url in requests if not url.startswith("data:")] == [target.as_uri()]
