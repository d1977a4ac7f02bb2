"""The map in a real browser, offline and from a file: zoom, click, search, lasso, download, keys, a phone."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from make_embedding import blobs, make_embedding, write_pictures

import hardpair as hp
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.projection import FILE

COUNT = 400
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
HOSTILE = [
    "</script><script>window.hit=1</script>.png",
    "<img src=x onerror=window.hit=1>.png",
    '"quoted", with a comma.png',
    "line\nbreak.png",
    "\u202egnp.evil",
    "broken\udcff\udcfe.png",
    "]]>&amp;--><!--.png",
    "😀/é.png",
]


def laid_out(folder: Path, *, files: list[str] | None = None, count: int = COUNT, **facts: Any) -> Embedding:
    """An embedding with its map: four groups in the corners of a square; no UMAP is needed to look at a page."""
    vectors, groups = blobs(count, 8, 4, spread=0.2)
    embedding = make_embedding(folder, vectors, files=files, **facts)
    corners = np.array([[0, 0], [10, 0], [0, 10], [10, 10]], np.float32)
    points = corners[groups] + np.random.default_rng(1).normal(scale=0.8, size=(count, 2)).astype("f4")
    clusters = groups.astype("i4")
    clusters[:3] = -1
    np.savez(
        folder / FILE,
        x=points[:, 0],
        y=points[:, 1],
        cluster=clusters,
        vectors=np.array(embedding.manifest["vectors_sha256"]),
    )
    return embedding


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("map")
    files = [f"photos/IMG_{row:04d}.png" for row in range(COUNT - len(HOSTILE))] + HOSTILE
    write_pictures(folder / "root", files[:300])
    labels = [None if row == 5 else ("cat", "dog", "<b>bird</b>")[row % 3] for row in range(COUNT)]
    splits = ["train" if row % 4 else "test" for row in range(COUNT)]
    embedding = laid_out(folder / "emb", files=files, labels=labels, splits=splits, root=folder / "root")
    return SimpleNamespace(page=hp.map(embedding), files=files, labels=labels, splits=splits)


def opened(browser: Any, page: Path, **options: Any) -> SimpleNamespace:
    context = browser.new_context(accept_downloads=True, reduced_motion="reduce", **{"viewport": WIDE, **options})
    context.set_offline(True)
    tab = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(page.resolve().as_uri())
    settle(tab)
    return SimpleNamespace(tab=tab, context=context, complaints=complaints, requests=requests)


def settle(tab: Any) -> None:
    """Until what was asked for is drawn; the page's policy forbids what playwright's own waiting needs."""
    tab.evaluate(
        "() => new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 60))"
    )


@pytest.fixture
def seen(browser: Any, made: SimpleNamespace) -> Iterator[SimpleNamespace]:
    shown = opened(browser, made.page)
    yield shown
    shown.context.close()
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []


def until(tab: Any, condition: str) -> None:
    """Until it holds, or for five seconds."""
    for _ in range(100):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(condition)


def at(tab: Any, row: int) -> tuple[float, float]:
    return tuple(tab.evaluate(f"hardpairMap.screenOf({row})"))


def zoom_to(tab: Any, row: int, times: int = 8) -> None:
    for _ in range(times):
        tab.mouse.move(*at(tab, row))
        tab.mouse.wheel(0, -240)
        settle(tab)


def inked(tab: Any) -> int:
    """Pixels of the dots that are not background."""
    return tab.evaluate("""() => { const c = document.getElementById('dots');
      const copy = new OffscreenCanvas(c.width, c.height).getContext('2d'); copy.drawImage(c, 0, 0);
      const d = new Uint32Array(copy.getImageData(0, 0, c.width, c.height).data.buffer);
      let n = 0; for (const p of d) if (p !== d[0]) n++; return n; }""")


def csv_rows(download: Any) -> list[dict[str, str]]:
    """Of a file that was downloaded."""
    text = Path(download.value.path()).read_bytes().decode("utf-8", "surrogateescape")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def lit(tab: Any) -> list[int]:
    return tab.evaluate("Array.from(hardpairMap.lit).flatMap((on, row) => on ? [row] : [])")


def said(tab: Any) -> str:
    return tab.text_content("#live")


def alone(tab: Any, rows: range) -> int:
    """A picture whose dot no other covers."""
    places = np.array([at(tab, row) for row in range(COUNT)])
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    return max(rows, key=lambda row: apart[row].min())


def test_dots_are_drawn_and_everything_is_on_the_screen(seen, made):
    assert inked(seen.tab) > 5 * COUNT
    places = np.array([at(seen.tab, row) for row in range(COUNT)])
    assert (places > 0).all()
    assert (places < [WIDE["width"], WIDE["height"]]).all()
    assert seen.tab.text_content("#title") == Path(made.page.parent.parent / "root").name


def test_thumbnails_appear_as_one_zooms_in(seen):
    tab = seen.tab
    zoom_to(tab, 10, 4)
    shown = tab.evaluate("hardpairMap.thumbs().map(one => one.row)")
    assert shown
    assert max(shown) < 300  # the others' pictures are not there
    zoom_to(tab, 10, 6)
    x, y = tab.evaluate("hardpairMap.thumbs().map(one => [one.x, one.y])")[0]
    colours = tab.evaluate(
        f"Array.from(document.getElementById('over').getContext('2d').getImageData({x} - 12, {y} - 12, 24, 24).data)"
    )
    assert np.std(np.reshape(colours, (-1, 4))[:, :3], axis=0).max() > 2  # a picture, no plain square
    assert tab.evaluate("hardpairMap.view.scale / hardpairMap.view.fitted") > 20


def test_a_click_shows_the_picture_its_neighbours_and_its_hard_pairs(seen, made):
    tab = seen.tab
    row = alone(tab, range(6, 300))
    tab.mouse.click(*at(tab, row))
    settle(tab)
    assert tab.evaluate("hardpairMap.state.chosen") == row
    panel = tab.locator("#panel")
    assert Path(made.files[row]).name in panel.inner_text()
    assert made.labels[row] in panel.inner_text()
    assert made.splits[row] in panel.inner_text()
    assert Path(made.files[row]).name in said(tab)
    graph = np.load(made.page.parent / "neighbours.npz")
    first, second = (panel.locator("ol").nth(place).locator("button") for place in range(2))
    assert [int(b.get_attribute("data-row")) for b in first.all()] == graph["rows"][row, :8].tolist()
    assert second.count() >= 1
    other = int(second.first.get_attribute("data-row"))
    chip = second.first.locator(".chip")
    assert ("same" in chip.get_attribute("class")) == (made.labels[row] == made.labels[other])
    second.first.click()
    settle(tab)
    assert tab.evaluate("hardpairMap.state.chosen") == other
    tab.keyboard.press("Escape")
    assert panel.is_hidden()


def test_colours_and_legend(seen, made):
    tab = seen.tab
    modes = tab.locator("#mode option")
    assert [option.get_attribute("value") for option in modes.all()] == ["label", "cluster", "split", "outlier"]
    for mode, kinds in (("cluster", 5), ("split", 2), ("outlier", 5), ("label", 4)):
        tab.select_option("#mode", mode)
        assert tab.locator("#legend button").count() == kinds
    assert "<b>bird</b>" in tab.locator("#legend").inner_text()
    before = inked(tab)
    tab.locator("#legend button", has_text="cat").click()
    cats = [row for row in range(COUNT) if made.labels[row] == "cat"]
    assert lit(tab) == cats
    assert str(len(cats)) in said(tab)
    settle(tab)
    assert inked(tab) <= before
    tab.locator("#legend button", has_text="dog").click()
    assert lit(tab) == [row for row in range(COUNT) if made.labels[row] in ("cat", "dog")]
    tab.click("#clear")
    assert len(lit(tab)) == COUNT
    tab.select_option("#mode", "split")
    tab.locator("#legend button", has_text="test").click()
    assert lit(tab) == [row for row in range(COUNT) if made.splits[row] == "test"]


def test_search_by_name_and_by_label(seen, made):
    tab = seen.tab
    tab.keyboard.press("/")
    tab.keyboard.type("img_012")
    tab.wait_for_selector("#found button")
    assert lit(tab) == list(range(120, 130))
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.evaluate("hardpairMap.state.chosen") == 121
    tab.fill("#query", "DOG")
    until(tab, f"hardpairMap.lit.reduce((a, b) => a + b) === {made.labels.count('dog')}")
    tab.fill("#query", "nothing has this name")
    until(tab, "hardpairMap.lit.reduce((a, b) => a + b) === 0")
    assert tab.locator("#save").is_disabled()
    tab.fill("#query", "")
    until(tab, f"hardpairMap.lit.reduce((a, b) => a + b) === {COUNT}")


@pytest.mark.parametrize("way", ["shift", "button"])
def test_the_lasso_selects_what_is_inside_and_downloads_it(seen, made, way):
    tab = seen.tab
    places = np.array([at(tab, row) for row in range(COUNT)])
    middle = (places.min(axis=0) + places.max(axis=0)) / 2
    left, top, right, bottom = *(places.min(axis=0) - 15), *middle
    if way == "shift":
        tab.keyboard.down("Shift")
    else:
        tab.click("#lasso")
    tab.mouse.move(left, top)
    tab.mouse.down()
    for corner in ((right, top), (right, bottom), (left, bottom)):
        tab.mouse.move(*corner, steps=3)
    tab.mouse.up()
    tab.keyboard.up("Shift")
    inside = np.flatnonzero((places < [right, bottom]).all(axis=1)).tolist()
    assert lit(tab) == inside
    assert 50 < len(inside) < 200
    assert f"{len(inside)} pictures selected" in tab.inner_text("#bar")
    assert f"{len(inside)} pictures selected" in said(tab)
    with tab.expect_download() as download:
        tab.click("#save")
    rows = csv_rows(download)
    stored = np.load(made.page.parent / FILE)
    assert [row["filename"] for row in rows] == [made.files[row] for row in inside]
    assert [row["label"] for row in rows] == [made.labels[row] or "" for row in inside]
    assert [int(row["cluster"]) for row in rows] == stored["cluster"][inside].tolist()
    assert [np.float32(row["x"]) for row in rows] == stored["x"][inside].tolist()
    tab.keyboard.press("Escape")
    assert len(lit(tab)) == COUNT


def test_names_of_all_kinds_are_text_and_come_out_as_they_were(seen, made):
    tab = seen.tab
    for place, name in enumerate(HOSTILE):
        row = COUNT - len(HOSTILE) + place
        tab.fill("#query", name.split(".")[0].split("\n")[0].split("\u202e")[-1].split("\udcff")[0])
        tab.wait_for_selector(f"#found button[data-row='{row}']")
        tab.click(f"#found button[data-row='{row}']")
        assert tab.locator("#panel script, #panel img, #found script, #found img").count() == 0
    assert tab.evaluate("window.hit") is None
    assert "\u202e" not in tab.evaluate("document.body.innerText")
    tab.click("#clear")
    tab.locator("#legend button", has_text="cat").click()
    tab.locator("#legend button", has_text="dog").click()
    tab.locator("#legend button", has_text="bird").click()
    tab.locator("#legend button", has_text="no label").click()
    with tab.expect_download() as download:
        tab.click("#save")
    assert [row["filename"] for row in csv_rows(download)] == made.files


def test_keys_move_zoom_and_open(seen):
    tab = seen.tab
    tab.focus("#over")
    view = "JSON.stringify([hardpairMap.view.x, hardpairMap.view.y, hardpairMap.view.scale])"
    x, y, scale = json.loads(tab.evaluate(view))
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    moved = json.loads(tab.evaluate(view))
    assert moved[0] > x
    assert moved[1] < y
    tab.keyboard.press("+")
    tab.keyboard.press("+")
    assert json.loads(tab.evaluate(view))[2] > 1.5 * scale
    tab.keyboard.press("-")
    tab.keyboard.press("Enter")
    chosen = tab.evaluate("hardpairMap.state.chosen")
    apart = [np.hypot(a - 720, b - 450) for a, b in (at(tab, row) for row in range(COUNT))]
    assert chosen >= 0
    assert tab.evaluate("document.activeElement.id") == "panel"
    tab.wait_for_timeout(450)  # it may have been brought into view
    assert apart
    tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement.id") == "over"
    tab.keyboard.press("0")
    until(tab, "Math.abs(hardpairMap.view.scale / hardpairMap.view.fitted - 1) < 1e-6")
    tab.keyboard.press("?")
    assert "largest entry" in tab.inner_text("#help")
    tab.keyboard.press("Escape")
    assert not tab.evaluate("document.getElementById('help').open")


def test_everything_has_a_name_for_screen_readers(seen):
    tab = seen.tab
    tab.mouse.click(*at(tab, 20))
    settle(tab)
    unnamed = tab.evaluate("""[
      ...document.querySelectorAll('button, input, select, canvas[role], [role=img], aside, dialog')]
      .filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.innerText.trim()))
      .map(e => e.outerHTML.slice(0, 120))""")
    assert unnamed == []
    assert str(COUNT) in tab.get_attribute("#over", "aria-label")


def test_a_phone_taps_pinches_and_drags(browser, made):
    seen = opened(browser, made.page, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    tab = seen.tab
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    places = np.array([at(tab, row) for row in range(COUNT)])
    assert (places > 0).all()
    assert (places < [PHONE["width"], PHONE["height"]]).all()
    touches = seen.context.new_cdp_session(tab)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        spots = [{"x": x, "y": y, "id": place} for place, (x, y) in enumerate(points)]
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})

    touch("touchStart", (180, 500), (220, 500))
    for step in range(1, 9):
        touch("touchMove", (180 - 10 * step, 500), (220 + 10 * step, 500))
    touch("touchEnd")
    settle(tab)
    assert 3 < tab.evaluate("hardpairMap.view.scale / hardpairMap.view.fitted") < 7
    before = at(tab, 0)
    touch("touchStart", (200, 600))
    for step in range(1, 6):
        touch("touchMove", (200 - 10 * step, 600 - 10 * step))
    touch("touchEnd")
    settle(tab)
    assert np.allclose(np.subtract(before, at(tab, 0)), 50, atol=1)
    tab.wait_for_timeout(400)  # a tap right after a drag is taken for the end of a gesture
    tab.tap("#fit")
    until(tab, "Math.abs(hardpairMap.view.scale / hardpairMap.view.fitted - 1) < 1e-6")
    settle(tab)
    row = alone(tab, range(6, 300))
    tab.touchscreen.tap(*at(tab, row))
    settle(tab)
    assert tab.evaluate("hardpairMap.state.chosen") == row
    box = tab.locator("#panel").bounding_box()
    assert box["y"] > 0.4 * PHONE["height"]
    assert box["width"] == PHONE["width"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    tab.wait_for_timeout(400)
    assert at(tab, row)[1] < box["y"]  # the picture is not behind its panel
    seen.context.close()
    assert seen.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_in_light_and_in_dark(browser, made, scheme):
    seen = opened(browser, made.page, color_scheme=scheme)
    seen.tab.mouse.click(*at(seen.tab, 20))
    settle(seen.tab)
    contrasts = seen.tab.evaluate("""() => {
      const light = css => { const [r, g, b] = css.match(/[\\d.]+/g).map(Number).slice(0, 3).map(v => v / 255)
        .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
      const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      return [...document.querySelectorAll('h1, h2, h3, p, dt, dd, button, .note, .chip, .name, #tally')]
        .filter(e => e.offsetWidth > 2 && !e.closest('.hidden, [hidden]') && e.innerText)
        .map(e => { const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((p, q) => q - p);
          return [(a + .05) / (b + .05), e.outerHTML.slice(0, 80)]; }); }""")
    assert [entry for entry in contrasts if entry[0] < 4.5] == []
    background = seen.tab.evaluate(
        "Array.from(document.getElementById('dots').getContext('2d').getImageData(700, 2, 1, 1).data)"
    )
    assert (max(background[:3]) < 60) == (scheme == "dark")
    seen.context.close()


def test_what_was_chosen_stays_when_the_room_gets_dark(seen, made):
    tab = seen.tab
    tab.locator("#legend button", has_text="cat").click()
    tab.emulate_media(color_scheme="dark")
    settle(tab)
    assert tab.locator("#legend [aria-pressed=true]").inner_text().startswith("cat")
    assert lit(tab) == [row for row in range(COUNT) if made.labels[row] == "cat"]
    tab.click("#fold")
    assert tab.locator("#legend").is_hidden()


def test_as_many_labels_as_pictures(browser, tmp_path):
    embedding = laid_out(tmp_path, count=3000, labels=[f"label {row}" for row in range(3000)])
    seen = opened(browser, hp.map(embedding))
    assert seen.tab.evaluate("performance.getEntriesByName('painted')[0].startTime") < 2000
    assert seen.tab.locator("#legend button").count() == 300
    assert "2,700" in seen.tab.inner_text("#legend")
    assert len(set(seen.tab.evaluate("Array.from(hardpairMap.lit)"))) == 1
    seen.context.close()
    assert seen.complaints == []


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_few_pictures_can_be_looked_at(browser, tmp_path, count):
    files = [f"{row}.png" for row in range(count)]
    write_pictures(tmp_path / "root", files)
    embedding = make_embedding(tmp_path / "emb", blobs(count, 4, 2)[0], files=files, root=tmp_path / "root")
    points = np.random.default_rng(0).random((2, count), dtype=np.float32)
    digest = np.array(embedding.manifest["vectors_sha256"])
    np.savez(tmp_path / "emb" / FILE, x=points[0], y=points[1], cluster=np.full(count, -1), vectors=digest)
    seen = opened(browser, hp.map(embedding))
    for row in range(count):
        seen.tab.mouse.click(*at(seen.tab, row))
        assert seen.tab.evaluate("hardpairMap.state.chosen") == row
        assert seen.tab.locator("#panel ol button").count() >= min(8, count - 1)
        seen.tab.keyboard.press("Escape")
        seen.tab.keyboard.press("0")  # the panel moved what it would have covered
        settle(seen.tab)
    assert len(seen.tab.evaluate("hardpairMap.thumbs()")) == count
    seen.context.close()
    assert seen.complaints == []
