"""Makes a run folder as training and evaluation leave it, small but with everything in it."""

import base64
import io
import json
import math
import random
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

CLASSES = ("aeroplane", "automobile", "bird", "cat", "deer", "frog")
RECIPE = {
    "name": "demo", "hash": "5f0c2a9d1b7e", "data": "sample", "image_size": 32, "encoder": "resnet18", "width": 0.25,
    "small_images": True, "method": "hnpm", "epochs": 20, "batch_size": 160, "optimiser": "adam",
    "learning_rate": 0.001, "schedule": "cosine", "seed": 0,
    "settings": {"tau": 0.5, "threshold": 1.2, "alpha_pos": 0.8, "alpha_neg": 0.1},
}  # fmt: skip
DATA = {
    "train": {"name": "sample/train", "images": 5000, "digest": "a1b2c3d4" * 8},
    "test": {"name": "sample/test", "images": 1000, "digest": "e5f6a7b8" * 8},
}


def png(kind: int, seed: int) -> str:
    """A 32-pixel picture: the shape and sky of a class, the rest at random."""
    draw = random.Random(seed)
    back = tuple(
        min(255, 60 + 30 * kind + draw.randrange(50)) if i != kind % 3 else 110 + draw.randrange(60) for i in range(3)
    )
    image = Image.new("RGB", (32, 32), back)
    pen, (x, y) = ImageDraw.Draw(image), (draw.randrange(3, 9), draw.randrange(3, 9))
    pen.rectangle((0, 22 + draw.randrange(4), 32, 32), fill=(60 + 20 * kind, 70 + draw.randrange(60), 50))
    colour = (draw.randrange(120, 250), 40 * kind, 220 - 35 * kind)
    (pen.ellipse if kind % 2 else pen.rectangle)((x, y, x + 18, y + 12 + kind), fill=colour, outline=(30, 30, 30))
    out = io.BytesIO()
    image.save(out, format="PNG")
    return base64.b64encode(out.getvalue()).decode()


def picture(kind: int, seed: int) -> dict[str, Any]:
    name = CLASSES[kind]
    return {"id": seed, "label": name, "file": f"{name}/photo_of_a_{name}_{seed:05}.jpg", "png": png(kind, seed)}


def log() -> list[dict[str, Any]]:
    draw = random.Random(0)
    start = {
        "event": "start", "time": "2026-03-03T10:15:00+00:00", "data": "sample/train", "images": 5000,
        "classes": 10,
        "parameters": 701456, "device": "cpu", "threads": 2, "processes": 1, "commit": "3c9d8e7f6a5b4c3d",
        "versions": {"torch": "2.10.0", "timm": "1.0.20"},
        "skipped": ["holiday.heic: not an image that can be read"],
    }  # fmt: skip
    warning = {"event": "warning", "step": 62, "text": "nothing was mined in the last 31 steps; raise the threshold"}
    return [start, *(step(place, draw) for place in range(1, 41)), warning, warning, {"event": "end", "seconds": 210.3}]


def step(place: int, draw: random.Random) -> dict[str, Any]:
    done = place / 40
    return {
        "event": "step", "step": 16 * place, "epoch": place / 2,
        "loss": 1.9 * math.exp(-3 * done) + 0.4 + draw.gauss(0, 0.03),
        "positive": 2.2 * math.exp(-4 * done) + 0.2, "negative": -0.8 - done + draw.gauss(0, 0.04),
        "mined": 0.35 * math.exp(-2.5 * done) + 0.05 + draw.gauss(0, 0.008), "empty": 0.3 * done**2,
        "learning_rate": 0.0005 * (1 + math.cos(math.pi * done)), "gradient_norm": 2 + abs(draw.gauss(0, 0.6)),
        "spread": 0.93 - 0.2 * math.exp(-5 * done) + draw.gauss(0, 0.004), "rank": 62 - 40 * math.exp(-4 * done),
        "images_per_second": 512 + draw.gauss(0, 15), "data_wait": abs(draw.gauss(0.01, 0.004)),
    }  # fmt: skip


def score(protocol: str, settings: dict[str, Any], top1: float, control: float) -> dict[str, Any]:
    return {
        "protocol": protocol, "settings": settings, "metrics": {"top1": top1, "top5": 91.2},
        "control": {"top1": control, "top5": 84.0}, "data": DATA, "classes": 10, "seed": 0,
        "source": "sample", "data_root": "data", "on": "test", "image_size": 32, "recipe": "demo",
        "recipe_hash": RECIPE["hash"], "commit": "3c9d8e7f6a5b4c3d", "seconds": 3.2,
        "date": "2026-03-03T10:20:00+00:00",
    }  # fmt: skip


def pairs(shown: int = 16) -> dict[str, Any]:
    draw = random.Random(1)
    found = []
    for place in range(shown):
        kind = draw.randrange(6)
        other = kind if place % 3 == 0 else (kind + 2) % 6
        pair = {"anchor": picture(kind, 100 + place), "negative": picture(other, 300 + place)}
        found.append({"distance": 0.41 + 0.02 * place, **pair})
    return {
        "images": 5000,
        "mined": 12345,
        "share": 0.08,
        "false_negatives": 0.31,
        "chance": 0.1,
        "pairs": found,
    }


def neighbours(queries: int = 6) -> dict[str, Any]:
    draw = random.Random(2)

    def six(kind: int, right: float) -> list[dict[str, Any]]:
        kinds = [kind if draw.random() < right else draw.randrange(6) for _ in range(6)]
        return [{**picture(k, draw.randrange(5000)), "similarity": 0.97 - 0.02 * i} for i, k in enumerate(kinds)]

    asked = [
        {"image": picture(k % 6, k), "neighbours": six(k % 6, 0.7), "control": six(k % 6, 0.2)} for k in range(queries)
    ]
    return {"data": "sample/test", "agreement": 0.43, "control_agreement": 0.28, "queries": asked}


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def fill(folder: Path, *, leave_out: tuple[str, ...] = ()) -> Path:
    folder.mkdir(parents=True)
    scores = [score("linear", {"epochs": 100}, 45.1, 33.0), score("knn", {"k": 20, "temperature": 0.07}, 39.4, 28.6)]
    (folder / "recipe.json").write_text(json.dumps(RECIPE), encoding="utf-8")
    lines = [{key: value for key, value in line.items() if key not in leave_out} for line in log()]
    write_lines(folder / "log.jsonl", lines)
    write_lines(folder / "scores.jsonl", scores)
    (folder / "encoder.json").write_text(json.dumps({"name": "resnet18", "num_features": 128}), encoding="utf-8")
    (folder / "pairs.json").write_text(json.dumps(pairs()), encoding="utf-8")
    (folder / "neighbours.json").write_text(json.dumps(neighbours()), encoding="utf-8")
    return folder
