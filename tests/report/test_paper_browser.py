"""The page of the paper's tables in a real browser: wide tables scroll in their boxes, nothing is fetched."""

from pathlib import Path
from typing import Any

from paper_runs import for_every_table

from hardpair.report.paper import write_paper

SCROLLS = """[...document.querySelectorAll('.scroll')].map(box => {
  const name = box.querySelector('tbody th').getBoundingClientRect();
  box.scrollLeft = 1000;
  return [box.scrollWidth > box.clientWidth, box.scrollLeft > 0,
          Math.abs(box.querySelector('tbody th').getBoundingClientRect().left - name.left) < 1];
})"""
COLOURS = "['body', '.figures', '.figures td', '.measured .chip'].map(n => getComputedStyle(document.querySelector(n)))"


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
