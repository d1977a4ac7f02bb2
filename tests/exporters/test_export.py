"""An export gives what the encoder gives, or it is not there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from making import make_head, make_run
from PIL import Image
from safetensors.torch import load_file, save_file

import hardpair as hp
from hardpair.data import open_images
from hardpair.embeddings.embedder import open_embedder
from hardpair.errors import UserError
from hardpair.exporters import check, material, onnx_form, reload, standalone
from hardpair.exporters.check import BATCHES, LIMITS, difference
from hardpair.exporters.material import Material, loading_from
from hardpair.models import build_encoder, fingerprint
from hardpair.pixels import MEAN, STD
from hardpair.report.run_files import read_run

CPU = torch.device("cpu")
NAMES = ("a|b", "<script>", "naïve\nclass")


@pytest.fixture
def here(monkeypatch):
    """Reload in this process, eight pictures: all but that it is another process, without hardpair."""
    monkeypatch.setattr(check, "COUNT", 8)
    monkeypatch.setattr(check, "BATCHES", (1, 7, 8))

    def reloaded(lines, folder, pixels, *, takes, mean, std):
        path = list(sys.path)
        try:
            model = reload.load(list(loading_from(str(folder), lines)))
        finally:
            sys.path[:] = path
            sys.modules.pop("model", None)
        job = {"mean": list(mean), "std": list(std)}
        run = reload.normalised(model, job) if takes == "normalised" else model
        batches = pixels.numpy()
        return {
            size: np.concatenate([run(batches[start : start + size]) for start in range(0, len(batches), size)])
            for size in check.BATCHES
        }

    monkeypatch.setattr(check, "reloaded", reloaded)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def small_runs():
    return {
        "small stem": ("resnet10", {"width": 0.125, "small_images": True}),
        "selective": ("resnet14", {"width": 0.125, "sk": True}),
        "selective, small stem": ("resnet14", {"width": 0.125, "sk": True, "small_images": True}),
        "bottlenecks": ("resnet26", {"width": 0.0625}),
        "colour streams": ("resnet10", {"width": 0.25, "colour_streams": True}),
        "patches": ("resnet10", {"width": 0.125, "patch": 16, "small_images": True}),
        "other mean": ("resnet10", {"width": 0.125, "mean": [0.5, 0.4, 0.3], "std": [0.3, 0.2, 0.1]}),
    }


@pytest.mark.parametrize("kind", small_runs())
def test_resnets_of_all_kinds_in_plain_torch(kind, tmp_path, here):
    name, settings = small_runs()[kind]
    form = "huggingface" if kind == "selective" else "torch"
    run = make_run(tmp_path / "run", name, **settings)
    made = hp.export(run, to=form, out=tmp_path / "out", threads=1)
    assert made.checked.difference <= LIMITS[form]
    assert {file.name for file in made.folder.iterdir()} == {
        "README.md",
        "config.json",
        "model.py",
        "model.safetensors",
    }
    assert fingerprint(hp.load_encoder(made)) == fingerprint(hp.load_encoder(run))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize(
    ("form", "name"), [("timm", "resnet10"), ("torchvision", "resnet10"), ("huggingface", "resnet18")]
)
def test_resnets_that_others_have(form, name, tmp_path, here):
    run = make_run(tmp_path / "run", name)
    made = hp.export(run, to=form, out=tmp_path / "out", threads=1)
    assert made.checked.difference <= LIMITS[form]
    assert fingerprint(hp.load_encoder(made)) == fingerprint(hp.load_encoder(run))
    assert not any(tensor.startswith("trunk") for tensor in load_file(made.folder / "model.safetensors"))


@pytest.mark.parametrize("name", ["test_vit", "test_convnext"])
def test_timm_reads_its_own_models_from_the_folder(name, tmp_path, here):
    import timm

    run = make_run(tmp_path / "run", name, square=64, shown=48, image_size=64, mean=[0.5] * 3, std=[0.5] * 3)
    made = hp.export(run, to="timm", out=tmp_path / "out", threads=1)
    if "local-dir" in timm.models._factory.__dict__.get("_MODEL_SOURCES", ()):
        model = timm.create_model(f"local-dir:{made.folder}", pretrained=True).eval()
        shown = timm.data.resolve_model_data_config(model)
        assert shown["input_size"][-1] == 48
        assert shown["mean"] == [0.5] * 3
        embedder = open_embedder(made, device=CPU)
        assert (embedder.square, embedder.shown) == (64, 48)
        images = torch.rand(3, 3, 48, 48)
        with torch.no_grad():
            assert torch.allclose(model(images), embedder.encoder.trunk(images), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "form", "others"),
    [
        ("resnet10", {"width": 0.25}, "timm", "torch, huggingface or onnx"),
        ("resnet10", {"small_images": True}, "torchvision", "torch or onnx"),
        ("resnet14", {"sk": True, "width": 0.25}, "torchvision", "torch or onnx"),
        ("test_vit", {}, "torchvision", "timm, huggingface or onnx"),
        ("test_vit", {}, "torch", "timm, huggingface or onnx"),
    ],
)
def test_what_a_form_does_not_have_is_refused_with_those_that_do(name, settings, form, others, tmp_path, here):
    run = make_run(tmp_path / "run", name, **settings)
    with pytest.raises(UserError, match=f"{form}.*{others}"):
        hp.export(run, to=form, out=tmp_path / "out", threads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def altered(tensors):
    """One weight of one layer, by a thousandth."""
    name = next(name for name in tensors if name.endswith("layer3.0.conv1.weight"))
    return tensors | {name: tensors[name] * 1.001}


def not_finite(tensors):
    name = next(name for name in tensors if name.endswith("layer3.0.conv1.weight"))
    return tensors | {name: tensors[name] * torch.nan}


@pytest.mark.parametrize("harm", [altered, not_finite])
def test_a_layer_altered_on_the_way_is_noticed(harm, tmp_path, here, monkeypatch):
    run = make_run(tmp_path / "run", "resnet10", width=0.125)
    monkeypatch.setattr(material, "save_file", lambda tensors, file: save_file(harm(tensors), file))
    with pytest.raises(UserError, match="differ"):
        hp.export(run, to="torch", out=tmp_path / "out", threads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_an_altered_graph_is_noticed(tmp_path, here, monkeypatch):
    class Altered(onnx_form.Graph):
        def forward(self, images):
            return super().forward(images) + 1e-3

    run = make_run(tmp_path / "run", "resnet10", width=0.125)
    monkeypatch.setattr(onnx_form, "Graph", Altered)
    with pytest.raises(UserError, match="differ"):
        hp.export(run, to="onnx", out=tmp_path / "out", threads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_difference_is_of_all_outputs_and_sees_what_is_no_number():
    expected = np.ones((4, 3), np.float32) * 2
    found = expected.copy()
    assert difference(found, expected) == 0
    found[2, 1] += 1e-3
    assert difference(found, expected) == pytest.approx(5e-4, rel=1e-3)
    found[2, 1] = np.nan
    assert difference(found, expected) == np.inf
    assert difference(expected[:3], expected) == np.inf


@pytest.mark.parametrize("form", ["torch", "timm", "torchvision", pytest.param("onnx", marks=pytest.mark.slow)])
def test_with_a_head_the_softmax_gives_its_probabilities(form, tmp_path, here):
    run = make_run(tmp_path / "run", "resnet10")
    head = make_head(tmp_path / "head", hp.load_encoder(run), NAMES)
    made = hp.export(run, to=form, out=tmp_path / "out", head=tmp_path / "head", threads=1)
    config = json.loads((made.folder / "config.json").read_text())
    assert config["label_names"] == list(NAMES)
    assert config["num_classes"] == 3
    pixels = open_images("sample", "test", size=32, root=Path()).batch(torch.arange(5))
    embedder = open_embedder(run, device=CPU)
    expected = head.probabilities(embedder.vectors(pixels).numpy())
    takes = "pixels" if form == "onnx" else "normalised"
    lines = [line.replace('"out', f'"{made.folder}') for line in made.lines]
    found = check.reloaded(lines, made.folder, pixels, takes=takes, mean=MEAN, std=STD)[7]
    np.testing.assert_allclose(torch.from_numpy(found).softmax(1).numpy(), expected, atol=1e-5)
    if form != "onnx":
        assert fingerprint(hp.load_encoder(made)) == fingerprint(hp.load_encoder(run))
    card = (made.folder / "README.md").read_text()
    assert "<script>" not in card.replace(r"\<script\>", "")
    assert "accuracy: 0.75" in card


def test_a_vit_with_a_head(tmp_path, here):
    run = make_run(tmp_path / "run", "test_vit", image_size=32)
    head = make_head(tmp_path / "head", hp.load_encoder(run), NAMES)
    made = hp.export(run, to="timm", out=tmp_path / "out", head=tmp_path / "head", threads=1)
    tensors = load_file(made.folder / "model.safetensors")
    assert torch.equal(tensors["head.weight"], head.weight / head.temperature)
    assert fingerprint(hp.load_encoder(made)) == fingerprint(hp.load_encoder(run))


def test_a_head_of_another_encoder_or_size_is_refused(tmp_path, here):
    run = make_run(tmp_path / "run", "resnet10", width=0.125, square=64, shown=48)
    make_head(tmp_path / "head", build_encoder("resnet10", width=0.125), ("a", "b"), square=64, shown=48)
    with pytest.raises(UserError, match="another encoder"):
        hp.export(run, to="torch", out=tmp_path / "out", head=tmp_path / "head", threads=1)
    make_head(tmp_path / "good", hp.load_encoder(run), ("a", "b"), square=64, shown=48)
    with pytest.raises(UserError, match="48 px"):
        hp.export(run, to="torch", out=tmp_path / "out", head=tmp_path / "good", image_size=64, threads=1)
    made = hp.export(run, to="torch", out=tmp_path / "out", head=tmp_path / "good", threads=1)
    assert json.loads((made.folder / "config.json").read_text())["image_size"] == 48


def test_pictures_are_prepared_as_they_were_in_evaluation(tmp_path, here):
    run = make_run(tmp_path / "run", "resnet10", width=0.125, square=64, shown=48)
    made = hp.export(run, to="torch", out=tmp_path / "out", threads=1)
    pixels = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((260, 180), Image.Resampling.BICUBIC)
    picture.save(tmp_path / "picture.png")
    embedder = open_embedder(run, device=CPU)
    expected = embedder.vectors(embedder.read(tmp_path / "picture.png"))
    model = standalone.load(made.folder)
    with torch.no_grad():
        found = model(model.prepare(picture)[None])
    assert difference(found.numpy(), expected.numpy()) <= 1e-5


def test_pictures_of_the_check_come_from_all_over_the_data(tmp_path):
    folder = tmp_path / "photos"
    for row in range(90):
        (folder / "ab"[row // 45]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (row, 255 - row, 200 * (row // 45))).save(folder / "ab"[row // 45] / f"{row}.png")
    for row in range(20):
        (folder / "a" / f"{row}.png").write_bytes(b"broken")
    run = make_run(tmp_path / "run", "resnet10", width=0.125, square=64, shown=48)
    whole = Material(open_embedder(run, device=CPU))
    found = check.pictures_for(whole, str(folder), Path())
    assert found.name == "photos"
    assert found.pixels.shape == (64, 3, 48, 48)
    assert found.pixels.flatten(1).unique(dim=0).shape[0] == 64
    assert set(found.pixels[:, 2].flatten().tolist()) == {0, 200}  # of both classes
    for row in range(20, 40):
        (folder / "a" / f"{row}.png").unlink()
    assert check.pictures_for(whole, str(folder), Path()).name == "the bundled photos"  # 50 are too few
    absent = check.pictures_for(whole, str(tmp_path / "gone"), Path())
    assert absent.name == "the bundled photos"
    assert check.pictures_for(whole, "cifar10", tmp_path).name == "the bundled photos"  # and nothing is downloaded


def test_a_folder_with_something_in_it_stays_as_it_is(tmp_path, here):
    run = make_run(tmp_path / "run", "resnet10", width=0.125)
    (tmp_path / "out").mkdir()
    hp.export(run, to="torch", out=tmp_path / "out", threads=1)  # an empty one will do
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    with pytest.raises(UserError, match="not empty"):
        hp.export(run, to="torch", out=tmp_path / "out", threads=1)
    with pytest.raises(UserError, match="is a file"):
        hp.export(run, to="torch", out=tmp_path / "run" / "recipe.json", threads=1)
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before
    with pytest.raises(UserError, match="did you mean onnx"):
        hp.export(run, to="onx", out=tmp_path / "other", threads=1)


@pytest.mark.parametrize("name", ['with "quotes"', "back\\slash", "FOLDER's ünï", "line\nbreak"])
def test_any_name_of_a_folder_can_be_loaded_from(name, tmp_path, here):
    run = make_run(tmp_path / "run", "resnet10", width=0.125, small_images=True)
    made = hp.export(run, to="torch", out=tmp_path / name, threads=1)
    code = "\n".join(loading_from(str(made.folder), ("x = 'FOLDER'".replace("'", '"'),)))
    names = {}
    exec(code, names)
    assert names["x"] == str(made.folder)


@pytest.mark.usefixtures("here")
class TestReadAgain:
    """Exports as ENCODER of other verbs."""

    def test_a_second_export_is_the_same_encoder_with_the_same_card(self, tmp_path, finished_run):
        first = hp.export(finished_run, to="torch", out=tmp_path / "first", threads=1)
        second = hp.export(first, to="huggingface", out=tmp_path / "second", threads=1)
        assert fingerprint(hp.load_encoder(second)) == fingerprint(hp.load_encoder(finished_run))
        assert hp.load_encoder(second).step == hp.load_encoder(finished_run).step
        recipe = (first.folder / "README.md").read_text().partition("## Recipe")[2].partition("## Checked")[0]
        assert "| method | hnpm |" in recipe
        assert recipe in (second.folder / "README.md").read_text()

    def test_a_head_that_is_left_out_is_said_so(self, tmp_path, caplog):
        run = make_run(tmp_path / "run", "resnet10", width=0.125)
        make_head(tmp_path / "head", hp.load_encoder(run), NAMES)
        first = hp.export(run, to="torch", out=tmp_path / "first", head=tmp_path / "head", threads=1)
        again = hp.export(first, to="torch", out=tmp_path / "again", head=tmp_path / "head", threads=1)
        plain = hp.export(run, to="torch", out=tmp_path / "plain", threads=1)
        hp.export(plain, to="torch", out=tmp_path / "still plain", threads=1)
        assert caplog.messages == []
        hp.export(again, to="torch", out=tmp_path / "bare", threads=1)
        assert [message.partition(": ")[2] for message in caplog.messages] == [
            "its head is left out, so that the new export gives features; --head gives it one"
        ]

    def test_vectors_are_the_same_bits(self, tmp_path, finished_run):
        made = hp.export(finished_run, to="torch", out=tmp_path / "out", threads=1)
        vectors = [
            hp.embed(e, "sample:600", out=tmp_path / f"emb{i}", threads=1).vectors
            for i, e in enumerate((finished_run, made))
        ]
        assert np.array_equal(vectors[0][:50], vectors[1][:50])

    def test_evaluate_and_init_take_it(self, tmp_path, monkeypatch):
        from hardpair.models import read_weights

        run = make_run(tmp_path / "run", "resnet10", width=0.125, square=64, shown=48)
        made = hp.export(run, to="torch", out=tmp_path / "out", threads=1)
        monkeypatch.chdir(tmp_path)
        imported = hp.open_run(made, data="sample")
        embedder = open_embedder(imported, device=CPU)
        assert (embedder.square, embedder.shown) == (64, 48)
        assert fingerprint(embedder.encoder) == fingerprint(hp.load_encoder(run))
        assert set(read_weights(str(made.folder)).tensors) == set(hp.load_encoder(run).trunk.state_dict())

    @pytest.mark.slow
    def test_a_graph_is_none(self, tmp_path):
        run = make_run(tmp_path / "run", "resnet10", width=0.125, small_images=True)
        made = hp.export(run, to="onnx", out=tmp_path / "out", threads=1)
        with pytest.raises(UserError, match="ONNX graph"):
            hp.load_encoder(made)

    def test_what_was_changed_is_refused(self, tmp_path):
        run = make_run(tmp_path / "run", "resnet10", width=0.125, small_images=True)
        made = hp.export(run, to="torch", out=tmp_path / "out", threads=1)
        weights = made.folder / "model.safetensors"
        good, config = weights.read_bytes(), (made.folder / "config.json").read_text()
        for change in (lambda c: c[:-1] + bytes([c[-1] ^ 1]), lambda c: c[: len(c) // 2], lambda c: c[:0]):
            weights.write_bytes(change(good))
            with pytest.raises(UserError, match=r"model\.safetensors"):
                hp.load_encoder(made)
        weights.write_bytes(good)
        damage = {
            '"name": "resnet10"': '"name": 3',
            '"square": 32,\n    "sh': '"square": 0,\n    "sh',
            '"step": 7': '"step": ""',
        }
        for old, new in damage.items():
            assert old in config
            (made.folder / "config.json").write_text(config.replace(old, new))
            with pytest.raises(UserError, match=r"config\.json"):
                open_embedder(made, device=CPU)


def test_the_card_has_scores_of_this_step_beside_random_ones(tmp_path, here):
    run = make_run(tmp_path / "run", "resnet10", width=0.125, data=str(tmp_path / "secret" / "photos"))
    score = {"protocol": "linear", "settings": {}, "metrics": {"top1": 61.24}, "control": {"top1": 35.0}, "step": 7}
    score |= {"data": {"test": {"name": "pho|tos/test"}}}
    old = score | {"metrics": {"top1": 11.1}, "step": 3, "protocol": "knn"}
    (run / "scores.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(score)}\n")
    assert len(read_run(run).scores) == 2
    made = hp.export(run, to="torch", out=tmp_path / "out", threads=1)
    card = (made.folder / "README.md").read_text()
    assert r"| linear | pho\|tos/test | top-1 | 61.2 | 35.0 | +26.2 |" in card
    assert "11.1" not in card
    assert str(tmp_path) not in (made.folder / "config.json").read_text() + card.partition("## Recipe")[2]
    assert card.startswith("---\nlicense: ")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["torch", "timm", "torchvision", "huggingface", "onnx"])
def test_in_a_fresh_process(form, tmp_path):
    """The whole way; then what the card says, as anybody would type it."""
    run = make_run(tmp_path / "run", "resnet10")
    made = hp.export(run, to=form, out=tmp_path / "x" / "my export", threads=1)
    assert made.checked.difference <= LIMITS[form]
    code = re.search(r"```python\n(.*?)```", (made.folder / "README.md").read_text(), re.DOTALL)[1]
    assert len(code.splitlines()) == 3
    if form == "onnx":
        last = "import numpy; print(model(numpy.zeros((2, 3, 32, 32), numpy.uint8)).shape)"
    else:
        last = "import torch; print(tuple(model(torch.zeros(2, 3, 32, 32)).shape))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code + last],
        cwd=tmp_path / "x",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "(2, 512)", done.stderr


@pytest.mark.slow
def test_the_fresh_process_has_no_hardpair(tmp_path):
    pixels = torch.zeros(64, 3, 8, 8, dtype=torch.uint8)
    lines = ("import hardpair", "", "model = None")
    with pytest.raises(UserError, match="hardpair"):
        check.reloaded(lines, tmp_path, pixels, takes="pixels", mean=(0, 0, 0), std=(1, 1, 1))
    lines = ("import sys", "assert not any('hardpair' in name for name in sys.modules)", "def model(x): return x * 1.0")
    found = check.reloaded(lines, tmp_path, pixels, takes="pixels", mean=(0, 0, 0), std=(1, 1, 1))
    assert [len(found[size]) for size in BATCHES] == [64, 64, 64]


@pytest.mark.slow
def test_the_command_line(tmp_path, hardpair):
    run = make_run(tmp_path / "run", "resnet10", width=0.125, small_images=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = hardpair("export", "run", "--to", "torch", "--out", "x", "--threads", "1", env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x" / "model.py").is_file()
    assert "from model import load" in done.stdout
    done = hardpair("export", str(run), "--to", "timm", "--out", "y", "--threads", "1", env=environment)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "y").exists()
