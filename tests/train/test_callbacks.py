"""Who is told of a run: a callback gets what log.jsonl gets, and TensorBoard's files hold the same."""

import contextlib
import dataclasses
import io
import json
import shutil
import signal
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import lives
import numpy as np
import pytest
import torch
from PIL import Image
from tensorboardX.proto.event_pb2 import Event, SessionLog
from together import together

import hardpair as hp
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.files import read_json
from hardpair.methods.hnpm import HNPM
from hardpair.train import pretrain
from hardpair.train.pictures import SHOWN, pairs_picture, views_picture
from hardpair.train.tensorboard import TensorBoard
from hardpair.views import plain_view


class Listener:
    """Remembers what it is told."""

    def __init__(self, *, fails_at=()):
        self.told, self.fails_at = [], fails_at

    def __call__(self, event, values):
        self.told.append((event, values))
        if event in self.fails_at:
            raise ConnectionError("no answer\nfrom the server")

    def events(self, *, pictures=False):
        return [(event, values) for event, values in self.told if (event == "image") == pictures]


def read_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def logged(run):
    return [(line.pop("event"), line) for line in read_lines(run / "log.jsonl")]


def records(file):
    """Every event of a file: length, checksum, content and checksum of each."""
    data, place = file.read_bytes(), 0
    while place < len(data):
        (length,) = struct.unpack("<Q", data[place : place + 8])
        yield Event.FromString(data[place + 12 : place + 12 + length])
        place += length + 16


def seen(run):
    """(step, tag, value) as TensorBoard shows them: the start of a session takes back its step and what follows."""
    kept = []
    for file in sorted((run / "tensorboard").iterdir()):
        for event in records(file):
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                kept = [one for one in kept if one[0] < event.step]
            kept += [(event.step, value.tag, value) for value in event.summary.value]
    return kept


def scalars(run):
    return {(step, tag): value.simple_value for step, tag, value in seen(run) if value.HasField("simple_value")}


def pictures(run):
    found = [(step, tag, value.image.encoded_image_string) for step, tag, value in seen(run) if value.HasField("image")]
    return {(step, tag): np.asarray(Image.open(io.BytesIO(png))) for step, tag, png in found}


@pytest.fixture(scope="module")
def heard(small_recipe, tmp_path_factory):
    """A run whose every event is listened to, twice."""
    run, listener = tmp_path_factory.mktemp("heard") / "run", Listener()
    pretrain(small_recipe, run, checkpoint_every=10, callback=listener, tensorboard=True)
    return run, listener


def test_a_callback_is_told_what_the_log_says(heard, small_recipe):
    run, listener = heard
    assert json.loads(json.dumps(listener.events())) == json.loads(json.dumps(logged(run)))
    kinds = [event for event, _ in listener.told]
    assert kinds == ["start", "image", *["step"] * 4, "image", "end"]
    assert listener.told[0][1]["recipe"] == small_recipe.to_json() == read_json(run / "recipe.json")
    for _, values in listener.told[2:6]:
        assert {type(value) for name, value in values.items() if name != "step"} == {float}


def test_tensorboard_has_the_same_figures_and_pictures(heard):
    run, listener = heard
    expected = {
        (values["step"], f"train/{name}"): value
        for event, values in listener.told
        if event == "step"
        for name, value in values.items()
        if name != "step"
    }
    found = scalars(run)
    assert found.keys() == expected.keys()
    for place, value in expected.items():
        assert found[place] == np.float32(value), place
    shown = pictures(run)
    assert list(shown) == [(0, "views"), (40, "pairs")]
    for (_, values), picture in zip(listener.events(pictures=True), shown.values(), strict=True):
        assert np.array_equal(values["image"], picture)
    texts = {tag: value.tensor.string_val[0].decode() for _, tag, value in seen(run) if value.HasField("tensor")}
    assert texts.keys() == {"start/text_summary", "end/text_summary"}
    assert json.loads(texts["start/text_summary"])["recipe"] == read_json(run / "recipe.json")


def test_a_run_is_the_same_with_and_without(heard, finished_run):
    run, _ = heard
    for file in ("encoder.safetensors", "checkpoints/000000040/state.safetensors", "pairs.json"):
        assert (run / file).read_bytes() == (finished_run / file).read_bytes(), file


def test_the_first_picture_shows_what_the_first_step_saw(small_recipe, tmp_path, monkeypatch):
    forward, steps = HNPM.forward, []

    def spied(self, views):
        steps.append([view.clone() for view in views])
        return forward(self, views)

    monkeypatch.setattr(HNPM, "forward", spied)
    recipe = dataclasses.replace(small_recipe, settings={**small_recipe.settings, "small_views": 2})
    for until in (13, 15):  # in the first epoch, and when resumed
        listener, before = Listener(), len(steps)
        pretrain(recipe, tmp_path / "run", resume=True, until=until, callback=listener)
        ((_, told),) = listener.events(pictures=True)
        first = 0 if until == 13 else 13
        assert (told["step"], told["name"]) == (first, "views")
        images = open_images(recipe.data, "train", size=recipe.image_size, root=Path())
        rows = hp.data.epoch_order(1000, seed=recipe.seed, epoch=0)[50 * first :][:50]
        assert len(steps[before]) == 4
        assert np.array_equal(told["image"], views_picture(images.batch(rows), steps[before]))


def test_where_an_image_and_its_views_stand():
    images = torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8)
    views = [plain_view(images), plain_view(images, 16), torch.arange(20), torch.zeros(20, 9, 3, 8, 8)]
    picture = views_picture(images, views)  # two groups a row, each of an image and two views
    side, width = 99, 3 * 99 + 9
    assert picture.shape == (SHOWN // 2 * side, 2 * width, 3)
    for number in (0, 3, 15):
        group = picture[number // 2 * side :, number % 2 * width :]
        image = images[number].permute(1, 2, 0).numpy()
        for column in (0, 1):  # one pixel is a square of three by three
            tile = group[1:97, 1 + column * side :][:, :96]
            assert np.array_equal(tile, image.repeat(3, 0).repeat(3, 1)), (number, column)
        small = group[1:97, 1 + 2 * side :][:, :96]
        assert (small[:24] == 255).all()
        assert (small[24:72, 24:72:3] == small[24:72, 25:72:3]).all()


@pytest.mark.parametrize(("size", "count"), [(8, 1), (32, 5), (96, 24), (224, 3)])
def test_pictures_of_any_size(size, count):
    images = torch.full((count, 3, size, size), 80, dtype=torch.uint8)
    picture = pairs_picture(images, images)
    assert picture.dtype == np.uint8
    assert picture.shape == (-(-count // 4) * 99, min(count, 4) * (2 * 99 + 9), 3)
    assert (picture == 80).all(axis=2).sum() == 2 * count * 96 * 96


def test_a_resumed_run_tells_each_step_once(heard, small_recipe, tmp_path):
    """Paused, and killed: what came after the checkpoint is done again."""
    run, whole = tmp_path / "run", heard[0]
    pretrain(small_recipe, run, checkpoint_every=10, until=33, tensorboard=True)
    shutil.rmtree(run / "checkpoints/000000033")
    listener = Listener()
    pretrain(small_recipe, run, resume=True, tensorboard=True, callback=listener)
    assert len(list((run / "tensorboard").iterdir())) == 2
    assert [event for event, _ in listener.told[:3]] == ["start", "resume", "image"]
    steps = [step for step, tag, _ in seen(run) if tag == "train/loss"]
    assert steps == [line["step"] for event, line in logged(run) if event == "step"] == [10, 20, 30, 40]
    for (step, tag), value in scalars(run).items():
        if tag not in ("train/images_per_second", "train/data_wait"):
            assert value == scalars(whole)[step, tag]
    shown = pictures(run)
    assert list(shown) == [(0, "views"), (30, "views"), (40, "pairs")]
    assert np.array_equal(shown[40, "pairs"], pictures(whole)[40, "pairs"])


def test_two_files_that_begin_in_the_same_second(tmp_path, monkeypatch):
    monkeypatch.setattr("tensorboardX.event_file_writer.time", SimpleNamespace(time=lambda: 1.7e9))
    for step in (0, 10):
        with contextlib.closing(TensorBoard(tmp_path / "tensorboard")) as writer:
            writer("step", {"step": step, "loss": 1.0})
            writer("step", {"step": step + 20, "loss": 2.0})
    assert scalars(tmp_path) == {(step, "train/loss"): loss for step, loss in ((0, 1.0), (10, 1.0), (30, 2.0))}


def test_a_finished_run_has_nothing_to_tell(finished_run, small_recipe):
    listener = Listener()
    pretrain(small_recipe, finished_run, resume=True, callback=listener)
    assert listener.told == []


def test_a_callback_that_fails_costs_one_warning(small_recipe, finished_run, tmp_path, capsys):
    failing, run = Listener(fails_at=("start", "step", "image", "warning")), tmp_path / "run"
    assert pretrain(small_recipe, run, callback=failing, tensorboard=True).status == "finished"
    assert (run / "encoder.safetensors").read_bytes() == (finished_run / "encoder.safetensors").read_bytes()
    (warning,) = [line["text"] for event, line in logged(run) if event == "warning"]
    said = (
        "callback Listener failed at the event 'start' (ConnectionError: no answer from the server; test_callbacks.py"
    )
    assert warning.startswith(said)
    assert capsys.readouterr().out.splitlines().count(f"warning: {warning}") == 1
    assert json.loads(json.dumps(failing.events())) == json.loads(json.dumps(logged(run)))  # it is told of all the rest
    assert len(pictures(run)) == 2  # and so does the second picture


def test_a_file_that_cannot_be_written_does_not_end_a_run(small_recipe, tmp_path):
    run = tmp_path / "run"
    pretrain(small_recipe, run, until=2)
    (run / "tensorboard").write_text("in the way")
    assert pretrain(small_recipe, run, resume=True, until=4, tensorboard=True).step == 4
    assert [line["text"][:28] for event, line in logged(run) if event == "warning"] == ["callback TensorBoard failed "]


def test_a_callback_can_stop_a_run(small_recipe, tmp_path):
    def stop(event, values):
        if event == "step" and values["step"] == 20:
            signal.raise_signal(signal.SIGTERM)

    outcome = pretrain(small_recipe, tmp_path / "run", callback=stop)
    assert (outcome.status, outcome.step, outcome.signal) == ("stopped", 21, signal.SIGTERM)
    assert pretrain(small_recipe, tmp_path / "run", resume=True).status == "finished"


def test_a_callback_cannot_change_what_others_are_told(small_recipe, tmp_path):
    run = tmp_path / "run"
    pretrain(small_recipe, run, until=10, callback=lambda _, values: values.clear(), tensorboard=True)
    assert (10, "train/loss") in scalars(run)
    assert all("step" in line for _, line in logged(run))


def test_without_pairs_or_mining_there_is_no_picture_of_them(small_recipe, tmp_path):
    nothing_mined = {**small_recipe.settings, "threshold": 0.0}
    for name, changes in (("simsiam", {"method": "simsiam", "settings": {}}), ("none", {"settings": nothing_mined})):
        listener = Listener()
        recipe = dataclasses.replace(small_recipe, epochs=1, **changes)
        assert pretrain(recipe, tmp_path / name, callback=listener).status == "finished"
        assert [values["name"] for _, values in listener.events(pictures=True)] == ["views"]


def test_a_missing_package_is_said_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError) as mistake:
        hp.pretrain("nowhere", run=tmp_path / "run", tensorboard=True)
    assert str(mistake.value) == "tensorboard: needs the package tensorboardX; pip install 'hardpair[tensorboard]'"
    assert not (tmp_path / "run").exists()


def test_what_is_no_function_is_refused(tmp_path):
    with pytest.raises(UserError, match="callback: must be a function of an event and its values, not 'wandb'"):
        hp.pretrain("nowhere", run=tmp_path / "run", callback="wandb")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hnpm", "moco"])  # to draw the views of moco, ranks must meet
def test_of_several_processes_the_first_tells(method, tmp_path):
    run = tmp_path / "run"
    together(2, lives.told, run, method)
    lines = read_lines(Path(f"{run}-0"))
    assert not Path(f"{run}-1").exists()
    assert [line for line in lines if line["event"] != "image"] == read_lines(run / "log.jsonl")
    assert [line["name"] for line in lines if line["event"] == "image"] == ["views", "pairs"][: 1 + (method == "hnpm")]
    assert len(list((run / "tensorboard").iterdir())) == 1
