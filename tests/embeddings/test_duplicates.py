"""Copies are found, whatever was done to them, and other pictures are not."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_embedding import make_embedding
from PIL import Image

from hardpair.data.sample import read_sample
from hardpair.embeddings.duplicates import (
    Links,
    Squares,
    best_of_each,
    exact_links,
    first_equal,
    groups,
    near_links,
    read_squares,
    similar_links,
)
from hardpair.embeddings.graph import Graph, neighbour_graph
from hardpair.embeddings.pictures import Pictures
from hardpair.embeddings.registration import register
from hardpair.embeddings.windows import MIDDLE, PLACES, WINDOWS, alignment, cells, likely_pairs, mirror

SIDE = 64


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    """Bundled photos, enlarged so that there is something to cut off."""
    pixels = read_sample("train").batch(np_rows(400)).numpy()
    return [
        Image.fromarray(photo.transpose(1, 2, 0)).resize((SIDE, SIDE), Image.Resampling.BICUBIC) for photo in pixels
    ]


def np_rows(count: int):
    import torch

    return torch.arange(0, 5000, 5000 // count)[:count]


def square(photo: Image.Image) -> np.ndarray:
    return np.array(photo.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)


def encoded(photo: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


def cut(photo: Image.Image, left: float, top: float, share: float = 0.8) -> Image.Image:
    side = round(share * SIDE)
    x, y = round(left * (SIDE - side)), round(top * (SIDE - side))
    return photo.crop((x, y, x + side, y + side))


def copies(photo: Image.Image, random: np.random.Generator) -> list[Image.Image]:
    """Re-encoded, resized, cut, mirrored, and two at once."""
    left, top = random.random(2)
    return [
        encoded(photo, int(random.integers(50, 90))),
        photo.resize((50, 50), Image.Resampling.BILINEAR),
        cut(photo, left, top),
        photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        encoded(cut(photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT), left, top, 0.9), 80),
    ]


def no_neighbours(count: int) -> np.ndarray:
    return np.full((count, 1), -1)


def naive_windows(grey: np.ndarray) -> np.ndarray:
    """The windows of one picture as the mean of 20 × 20 points in each cell: (windows, 64)."""
    found = []
    for scale, shifts in PLACES.items():
        for dy in shifts:
            for dx in shifts:
                points = (np.arange(160) + 0.5) / 160 - 0.5  # of the window, 20 in each cell
                y = ((0.5 + dy + 0.8 * scale * points) * 32).astype(int)
                x = ((0.5 + dx + 0.8 * scale * points) * 32).astype(int)
                cell = grey[np.ix_(y, x)].reshape(8, 20, 8, 20).mean((1, 3)).ravel()
                found.append((cell - cell.mean()) / np.linalg.norm(cell - cell.mean()))
    return np.array(found)


def test_windows_are_means_over_their_cells(photos):
    grey = square(photos[0]).mean(0).astype(np.float32)
    np.testing.assert_allclose(cells(grey[None])[0], naive_windows(grey), atol=0.02)
    assert len(WINDOWS) == len(naive_windows(grey))
    flat = cells(np.full((1, 32, 32), 7, np.float32))
    assert not flat.any()


def test_a_mirrored_window_is_a_window_of_the_mirror_image(photos):
    grey = square(photos[1]).mean(0).astype(np.float32)
    core = cells(grey[None])[0, MIDDLE]
    np.testing.assert_allclose(mirror(core), cells(grey[None, :, ::-1])[0, MIDDLE], atol=1e-5)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("by", ["fingerprints", "neighbours"])
def test_the_window_of_a_cut_is_found_by_either_way(photos, by, mirrored):
    first = photos[:60]
    second = [cut(photo, 0.25, 0.75) for photo in first]  # 0.05 to the left and below the middle
    if mirrored:
        second = [photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for photo in second]
    pixels = np.stack([square(photo) for photo in first + second])
    partner = np.r_[np.arange(60) + 60, np.arange(60)][:, None] if by == "neighbours" else no_neighbours(120)
    found = {}
    for pairs in likely_pairs(pixels, partner):
        for i, j, window, flipped in zip(pairs.i, pairs.j, pairs.window, pairs.mirrored, strict=True):
            if j == i + 60:
                found[i] = alignment(np.array([window]), np.array([flipped]))[0]
    assert len(found) >= (60 if by == "neighbours" else 57)
    expected = [-0.8 if mirrored else 0.8, -0.1, 0.8, 0.1]
    assert np.median([np.abs(where - expected).max() for where in found.values()]) <= 0.1


@settings(max_examples=20)
@given(
    row=st.integers(0, 399),
    scale=st.floats(0.8, 1),
    x=st.floats(-1, 1),
    y=st.floats(-1, 1),
    flip=st.booleans(),
)
def test_a_picture_is_laid_on_its_cut(photos, row, scale, x, y, flip):
    """From the nearest window on: an offset of up to a pixel and a half, and a scale that is off by .05."""
    photo = photos[row]
    if square(photo).mean(0).std() < 25:
        return  # hardly anything to align
    shift = (x * (1 - scale) / 2, y * (1 - scale) / 2)
    box = [(0.5 + d - scale / 2) * SIDE for d in shift] + [(0.5 + d + scale / 2) * SIDE for d in shift]
    part = photo.resize((32, 32), Image.Resampling.BICUBIC, box=tuple(box))
    if flip:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    start = np.array([[(-1 if flip else 1) * (scale + 0.04), 2 * shift[0] + 0.06, scale - 0.04, 2 * shift[1] - 0.06]])
    match = register(square(photo)[None], square(part)[None], start.astype(np.float32))
    assert match.grey[0] > 0.97
    assert match.detail[0] > 0.9
    assert match.overlap[0] > 0.8


def test_other_pictures_do_not_match(photos):
    pixels = np.stack([square(photo) for photo in photos])
    start = np.tile(np.array([1, 0, 1, 0], np.float32), (399, 1))
    match = register(pixels[:-1], pixels[1:], start)
    assert np.isfinite(np.stack(match)).all()
    assert (match.detail > 0.7).sum() == 0


@pytest.mark.parametrize("value", [0, 255])
def test_flat_pictures_match_nothing(value):
    flat = np.full((4, 3, 32, 32), value, np.uint8)
    match = register(flat[:2], flat[2:], np.tile(np.array([1, 0, 1, 0], np.float32), (2, 1)))
    assert not match.grey.any()
    assert not match.detail.any()
    links = near_links(Squares(flat, np.ones(4, bool)), no_neighbours(4), np.arange(4))
    assert len(links.i) == 0


def test_copies_are_found_without_an_encoder(photos):
    random = np.random.default_rng(0)
    pixels = [square(photo) for photo in photos]
    kind = [-1] * len(photos)
    for row in range(0, 400, 2):
        made = copies(photos[row], random)[row // 2 % 5]
        pixels.append(square(made))
        kind.append(row)
    links = near_links(Squares(np.stack(pixels), np.ones(600, bool)), no_neighbours(600), np.arange(600))
    found = set(zip(links.i.tolist(), links.j.tolist(), strict=True))
    planted = {(row, place) for place, row in enumerate(kind) if row >= 0}
    assert len(found & planted) >= 0.93 * len(planted)
    assert len(found - planted) <= 0.05 * len(found)


def test_equal_pictures_hang_together(photos):
    """Files that differ, and show the same: one link each."""
    pixels = np.repeat(square(photos[3])[None], 500, 0)
    links = near_links(Squares(pixels, np.ones(500, bool)), no_neighbours(500), np.arange(500))
    assert links.i.tolist() == [0] * 499


def test_pictures_that_are_nearly_equal_hang_together_in_little_work(photos):
    """80 encodings of one picture: one group, and at most 16 links of each."""
    pixels = np.stack([square(encoded(photos[3], quality)) for quality in range(20, 100)])
    links = near_links(Squares(pixels, np.ones(80, bool)), no_neighbours(80), np.arange(80))
    assert len(links.i) <= 80 * 16
    assert [len(group) for group in groups(links, 80)] == [80]


def test_of_equal_files_one_is_compared(photos):
    pixels = np.stack([square(photos[3])] * 50 + [square(encoded(photos[3], 70))])
    first = np.r_[np.zeros(50, np.int64), 50]
    links = near_links(Squares(pixels, np.ones(51, bool)), np.zeros((51, 1), np.int64), first)
    assert list(zip(links.i, links.j, strict=True)) == [(0, 50)]


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20))
def test_groups_are_what_links_connect(pairs):
    i, j = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    links = Links(i, j, np.ones(len(pairs), np.float32), np.zeros(len(pairs), np.int8))
    part = list(range(12))
    for a, b in pairs:
        part = [part[a] if known == part[b] else known for known in part]
    expected = {tuple(row for row in range(12) if part[row] == known) for known in part}
    assert {tuple(group.tolist()) for group in groups(links, 12)} == {rows for rows in expected if len(rows) > 1}


def test_equal_hashes_are_linked_to_the_first():
    assert first_equal(["a", "b", "a", "a"]).tolist() == [0, 1, 0, 0]
    links = exact_links(["a", "b", "a", "a"])
    assert links.i.tolist() == [0, 0]
    assert links.j.tolist() == [2, 3]


def test_the_best_of_each_pair_is_kept():
    links = Links(np.array([1, 0, 1]), np.array([2, 1, 2]), np.array([0.5, 0.9, 0.7], np.float32), np.zeros(3, np.int8))
    best = best_of_each(links)
    assert best.i.tolist() == [0, 1]
    assert best.score.tolist() == pytest.approx([0.9, 0.7])


def test_similar_is_what_is_far_nearer_than_the_tenth(tmp_path):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(60, 8)).astype(np.float32)
    vectors[1] = vectors[0] + 1e-3 * random.normal(size=8)
    graph = neighbour_graph(make_embedding(tmp_path, vectors))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    distance = 1 - unit @ unit.T + 9 * np.eye(60)
    tenth = np.sort(distance, axis=1)[:, 9]
    expected = {(i, j) for i in range(60) for j in range(i) if distance[i, j] < 0.25 * min(tenth[i], tenth[j])}
    links = similar_links(graph, np.zeros(60, bool), np.arange(60))
    assert {(int(j), int(i)) for i, j in zip(links.i, links.j, strict=True)} == expected
    assert (1, 0) in expected
    seen = similar_links(graph, np.ones(60, bool), np.arange(60))  # pixels have the last word
    assert len(seen.i) == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_images_are_no_trouble(tmp_path, count):
    graph = neighbour_graph(make_embedding(tmp_path, np.eye(count, 4, dtype=np.float32)))
    assert len(similar_links(graph, np.zeros(count, bool), np.arange(count)).i) == 0
    black = Squares(np.zeros((count, 3, 32, 32), np.uint8), np.zeros(count, bool))
    assert len(near_links(black, graph.rows, np.arange(count)).i) == 0


def test_similar_needs_no_square_of_memory():
    """Equal vectors have 32 neighbours each, and so at most 32 links."""
    count = 10_000
    rows = (np.arange(count)[:, None] + np.arange(1, 33)) % count
    links = similar_links(Graph(np.ones((count, 32), np.float32), rows), np.zeros(count, bool), np.arange(count))
    assert len(links.i) <= 32 * count
    assert [len(group) for group in groups(links, count)] == [count]


def test_squares_say_which_pictures_are_there(tmp_path, photos):
    for row in (0, 2):
        photos[row].save(tmp_path / f"{row:06d}.png")
    embedding = make_embedding(tmp_path / "emb", np.eye(3, dtype=np.float32), root=tmp_path)
    squares = read_squares([Pictures(embedding)], tmp_path)
    assert squares.there.tolist() == [True, False, True]
    assert squares.pixels[0].any()
    assert not squares.pixels[1].any()
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == ["000000.png", "000002.png", "emb"]
