"""Training from packed images is training from the pictures; and a set of any size needs no memory."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hostile import little_memory
from noise_photos import write_photos

from hardpair.cli import main
from hardpair.data import open_images
from hardpair.data.fill import publish
from hardpair.data.journal import HASH, DonePart, Heading
from hardpair.data.layout import Listing
from hardpair.data.pack import pack
from hardpair.data.store import VERSION
from hardpair.doctor import Doctor
from hardpair.doctor.image_checks import check_images
from hardpair.recipes import Recipe
from hardpair.train import pretrain

Command = Callable[..., object]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("noise") / "photos")


def test_the_same_encoder(photos: Path, small_recipe: Recipe, tmp_path: Path) -> None:
    pack(photos, tmp_path / "packed", 8)
    weights = []
    for data in (photos, tmp_path / "packed"):
        run = tmp_path / "runs" / data.name
        recipe = dataclasses.replace(small_recipe, data=str(data), batch_size=50, epochs=1)
        assert pretrain(recipe, run).status == "finished"
        weights.append((run / "encoder.safetensors").read_bytes())
        assert json.loads((run / "pairs.json").read_text())["images"] == 300
    assert weights[0] == weights[1]


@pytest.mark.parametrize("method", ["hnpm", "instdisc", "supervised"])
def test_no_memory_for_a_set_of_any_size(small_recipe: Recipe, tmp_path: Path, method: str) -> None:
    """The file of 2.8 GB is sparse; whoever read or copied all of it would show in the peak."""
    count, size = 100_000, 96
    names = [f"{'ab'[k % 2]}/{k}.jpg" for k in range(count)]
    listing = Listing(Path("nowhere"), names, torch.arange(count) % 2, ("a", "b"))
    part = DonePart(count, {}, "0" * 64, "".join(f"{k:0{2 * HASH}x}" for k in range(count)))
    heading = Heading(VERSION, size, "nowhere", "0" * 64)
    publish(tmp_path, {"train": listing}, {"train": [part]}, heading)
    with (tmp_path / "train.pixels").open("wb") as file:
        file.truncate(count * 3 * size**2)
    settings = {"hnpm": small_recipe.settings, "instdisc": {"head_outputs": 4, "negatives": 64}, "supervised": {}}
    recipe = dataclasses.replace(
        small_recipe, method=method, data=str(tmp_path), image_size=size, batch_size=16, settings=settings[method]
    )
    with little_memory(400):
        assert pretrain(recipe, tmp_path / "run", until=2).step == 2


def test_a_validation_part_is_not_read_for_its_hash(photos: Path, tmp_path: Path) -> None:
    """It is known by that of the whole."""
    pack(photos, tmp_path / "packed", 8)
    images = open_images(str(tmp_path / "packed"), "train", size=8, root=tmp_path)
    part = images.select(torch.arange(0, 300, 2))
    images.block[1:] = 0  # in memory alone; a hash that read the pixels would see it
    fresh = open_images(str(tmp_path / "packed"), "train", size=8, root=tmp_path)
    assert part.digest() == fresh.select(torch.arange(0, 300, 2)).digest()


def test_the_doctor_looks_at_what_is_packed(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "packed", 8)
    found = {finding.check: finding for finding in check_images(Doctor(data=str(tmp_path / "packed")))}
    assert {finding.level for finding in found.values()} == {"good"}
    assert found["images"].found == "300 training images of 2 classes"
    assert "squares of 8 px; hardpair pack --check" in found["packed"].found
    assert found["leaks"].found == "none of 40 test images is a training image"


def test_the_doctor_finds_leaks_in_what_is_packed(photos: Path, tmp_path: Path) -> None:
    pack(photos / "train", tmp_path / "packed", 8)  # a folder of classes, a fifth of each held out
    pixels = (tmp_path / "packed/train.pixels").read_bytes()
    with (tmp_path / "packed/test.pixels").open("r+b") as file:
        file.write(pixels[: 3 * 8**2])
    found = {finding.check: finding for finding in check_images(Doctor(data=str(tmp_path / "packed")))}
    assert found["leaks"].level == "bad"
    assert found["leaks"].found.startswith("1 of 60 test images also to train on: test/heads/")


@pytest.mark.slow
def test_the_whole_way_in_real_processes(hardpair: Command, photos: Path, tmp_path: Path) -> None:
    (photos / "train/heads/0.png").rename(tmp_path / "kept.png")
    (photos / "train/heads/0.png").write_bytes(b"rubbish")
    try:
        done = hardpair("pack", str(photos), "packed", "--size", "16")
    finally:
        (tmp_path / "kept.png").replace(photos / "train/heads/0.png")
    assert done.returncode == 0, done.stderr
    *enlarged, summary, unusable, usage = done.stdout.splitlines()
    assert all("smaller than 16 px" in line for line in enlarged)
    assert [summary, unusable, usage] == [
        "packed: 299 train and 40 test images of 2 classes, 16 px, 260.4 kB",
        "1 file could not be used; quarantine.txt says why",
        "use it with: --data packed --image-size 16",
    ]
    small = ["--encoder", "resnet10", "--width", ".0625", "--epochs", "1", "--run", "run"]
    done = hardpair("pretrain", "--data", "packed", "--image-size", "16", *small)
    assert done.returncode == 0, done.stderr
    assert "hnpm on 299 images of packed/train at 16 px, views of 12 px; 1 file could not be used" in done.stdout


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Exit code, output and errors of a command."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["hardpair", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(str(stop.value.code)), captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pack"], "folders: give the pictures and the folder to pack them into"),
        (["pack", "only"], "folders: give the pictures and the folder to pack them into"),
        (["pack", "a", "b", "c"], "folders: give the pictures and the folder to pack them into"),
        (["pack", "nowhere", "packed"], "nowhere: no such folder"),
        (["pack", "nowhere", "packed", "--siz", "8"], "--siz: there is no such option; did you mean --size"),
        (["pack", "nowhere", "packed", "--size", "4"], "size: must be between 8 and 1024, not 4"),
        (["pack", "--check"], "check: give one packed folder"),
        (["pack", "--check", "nowhere"], "nowhere: is no folder that hardpair pack made"),
    ],
)
def test_a_mistake_is_one_line(said: Command, tmp_path: Path, arguments: list[str], words: str) -> None:
    code, out, err = said(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_check_on_the_command_line(said: Command, photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "packed", 8)
    assert said("pack", "--check", "packed") == (0, "packed: sound, every byte of 340 images in 3 parts\n", "")
    with (tmp_path / "packed/test.pixels").open("r+b") as file:
        file.write(b"damage")
    code, out, err = said("pack", "--check", "packed")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "packed/test.pixels: images 0 to 39 are not what was packed (by their hash)",
        "packed: is damaged; copy it again from where it is sound, or delete it and pack the pictures again",
    ]


def test_another_size_on_the_command_line(said: Command, photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "packed", 8)
    code, out, err = said("pretrain", "demo", "--data", "packed")
    assert (code, out) == (2, "")
    assert err.startswith("hardpair: packed: holds squares of 8 px, not of 32; give --image-size 8, or the pictures")
    assert len(err.splitlines()) == 1
    assert said("pretrain", "--data", "packed", "--epochs", "1")[0] == 0  # a recipe for it takes the size that it has


def test_help_teaches(said: Command) -> None:
    code, out, _ = said("pack", "--help")
    assert code == 0
    for words in ("PHOTOS PACKED", "--check", "the same command goes on", "quarantine.txt", "duplicates.txt", "224"):
        assert words in out
