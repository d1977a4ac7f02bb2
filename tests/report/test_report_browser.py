"""The page in a real browser: everything is drawn, nothing is fetched, nothing sticks out."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_run import neighbours, pairs

from hardpair.report import write_report

IMAGES = "[...document.images].map(i => [i.naturalWidth, i.getBoundingClientRect().width, i.alt.length])"
CURVES = """[...document.querySelectorAll('.curve svg')].map(svg => {
  const line = svg.querySelector('[id$=-line] path').getBoundingClientRect();
  const box = svg.getBoundingClientRect();
  const stroke = getComputedStyle(svg.querySelector('[id$=-line] path')).stroke;
  return [box.width, box.height, line.width / box.width, line.height, stroke];
})"""
OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return !e.closest('.hidden') && box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def seen(browser: Any, finished: Path) -> Iterator[SimpleNamespace]:
    """The page of the finished run, open in a browser with every detail unfolded, and what it asked for and said."""
    address = write_report(finished).resolve().as_uri()
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield SimpleNamespace(page=page, requests=requests, complaints=complaints, address=address)
    page.close()


def test_every_image_is_decoded_and_has_a_place(seen: SimpleNamespace) -> None:
    images = seen.page.evaluate(IMAGES)
    assert len(images) == 6 * 13 + 16 * 2
    assert all(natural == 32 and 40 <= width <= 100 and alt > 0 for natural, width, alt in images)


def test_every_curve_is_drawn(seen: SimpleNamespace) -> None:
    curves = seen.page.evaluate(CURVES)
    assert len(curves) == 11
    for width, height, covered, tall, stroke in curves:
        assert width > 200
        assert height > 100
        assert covered > 0.7  # of the width of its figure
        assert tall > 5
        assert stroke.startswith("rgb")


def test_nothing_is_fetched_and_nothing_complains(seen: SimpleNamespace) -> None:
    fetched = [url for url in seen.requests if url != seen.address and not url.startswith("data:")]
    assert fetched == []
    assert seen.complaints == []


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_nothing_scrolls_sideways(seen: SimpleNamespace, width: int) -> None:
    seen.page.set_viewport_size({"width": width, "height": 900})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(OUTSIDE) == []


def test_long_names_do_not_scroll_sideways_either(seen: SimpleNamespace, run: Path) -> None:
    mined, found = pairs(4), neighbours(1)
    for image in [
        *(pair["anchor"] for pair in mined["pairs"]),
        found["queries"][0]["image"],
        *found["queries"][0]["control"],
    ]:
        image["label"] = "n02123045_tabby_cat_of_a_very_long_name" * 2
    (run / "pairs.json").write_text(json.dumps(mined), encoding="utf-8")
    (run / "neighbours.json").write_text(json.dumps(found), encoding="utf-8")
    long = run.rename(run.with_name("a_run_whose_name_has_no_place_to_break" * 2))
    page = seen.page.context.browser.new_page(viewport={"width": 360, "height": 800})
    page.goto(write_report(long).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(OUTSIDE) == []
    page.close()


def test_dark_mode_reaches_page_and_curves(seen: SimpleNamespace) -> None:
    def colours() -> list[str]:
        wanted = ["body", ".curve text", ".curve [id$=-line] path"]
        script = "names => names.map(n => getComputedStyle(document.querySelector(n)))"
        found = seen.page.evaluate(
            f"names => ({script})(names).map(s => [s.backgroundColor, s.fill, s.stroke].join())", wanted
        )
        return list(found)

    seen.page.emulate_media(color_scheme="light")
    light = colours()
    seen.page.emulate_media(color_scheme="dark")
    dark = colours()
    assert all(one != other for one, other in zip(light, dark, strict=True))
