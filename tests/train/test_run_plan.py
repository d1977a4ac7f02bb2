"""A plan foretells what a real run then shows, and what others have published."""

import dataclasses
import importlib.util
import json
import resource
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from hardpair import METHODS
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.precision import autocast
from hardpair.recipes import RECIPES, Recipe, find_recipe
from hardpair.train import pretrain
from hardpair.train.checkpoints import save_checkpoint
from hardpair.train.cost import forward_equivalents
from hardpair.train.optimisers import build_optimiser
from hardpair.train.plan import Gpus, RunPlan, enough_gpus, make_plan, most_images
from hardpair.train.plan_text import plan_json, plan_text, verdict
from hardpair.train.step import build_method
from hardpair.views import Draw

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/scale.md"
LARGE_BATCHES = [name for name in RECIPES if name.startswith("imagenet/") and find_recipe(name).batch_size == 4096]
LARGEST = "imagenet/hnpm-paper-152-3x-sk"
KINDS = ("hnpm", "moco", "cpc")  # an average, a queue, patches
METHOD_NAMES = [
    *KINDS,
    *(pytest.param(name, marks=pytest.mark.slow) for name in [*METHODS, "supervised"] if name not in KINDS),
]


def small(method: str, **changes: object) -> Recipe:
    fields = {"encoder": "resnet10", "width": 1 / 4, "batch_size": 16, **changes}
    return dataclasses.replace(find_recipe(f"demo/{method}"), **fields)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return open_images("sample", "train", size=32, root=tmp_path_factory.mktemp("none"))


@pytest.fixture(scope="module")
def scale_table() -> ModuleType:
    """scripts/scale_table.py, which prints the tables of the page."""
    spec = importlib.util.spec_from_file_location("scale_table", ROOT / "scripts/scale_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def supervised() -> RunPlan:
    """ResNet-50 as everybody trains it."""
    return make_plan(find_recipe("imagenet/supervised"), Gpus(8))


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_a_plan_foretells_a_real_step(photos, method):
    recipe = small(method)
    real, plan = build_method(recipe, photos), make_plan(recipe, Gpus(1))
    assert plan.images == len(photos)
    assert plan.parameters.encoder == sum(p.numel() for p in real.encoder.parameters())
    assert plan.parameters.method == sum(p.numel() for p in real.parameters())
    assert plan.parameters.trained == sum(p.numel() for p in real.parameters() if p.requires_grad)
    held = sum(t.nbytes for t in [*real.parameters(), *real.buffers()])
    assert plan.memory.weights + plan.memory.untrained == held
    # Activations to the byte; but the output of a group norm, which only CPC has, differs on the meta device.
    kept = kept_by_a_real_step(real.to(memory_format=torch.channels_last), recipe, photos)
    assert plan.memory.activations == pytest.approx(kept, rel=0.03 if method == "cpc" else 0)
    work = plan.work
    assert work.forward_equivalents == pytest.approx(forward_equivalents(recipe, photos), rel=1e-9)
    assert work.step_per_image == pytest.approx(work.forward_equivalents * work.encoder_per_image, rel=1e-9)
    assert work.steps == recipe.epochs * (5000 // 16)
    assert work.total == pytest.approx(work.step_per_image * 16 * work.steps)


def kept_by_a_real_step(method, recipe, photos):
    """Views, and what autograd saves; micro-batches keep their images and outputs."""
    rows = torch.arange(recipe.batch_size)
    views = method.views(photos.batch(rows), Draw(0, 0, rows, rows=rows, size=recipe.view_pixels))
    return kept_by(lambda: method(views)["loss"], method, recipe, counted=views)


def kept_by(forward, method, recipe, *, counted=(), besides=()):
    """Told apart by their addresses, which real memory has."""
    sizes = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    for view in counted:
        note(view)
    with (
        torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor),
        autocast(recipe.precision, torch.device("cpu")),
    ):
        outputs = forward()
    own = {t.untyped_storage().data_ptr() for t in [*method.parameters(), *method.buffers(), *besides]}
    assert outputs.requires_grad  # the graph, and so every address, is still in use
    return sum(size for place, size in sizes.items() if place not in own)


@pytest.mark.parametrize(
    ("method", "precision", "micro_batch"),
    [
        ("simclr", "float32", 4),
        ("simclr", "bfloat16", 0),
        ("hnpm", "bfloat16", 4),
        *(
            pytest.param(name, precision, micro_batch, marks=pytest.mark.slow)
            for name in [*METHODS, "supervised"]
            for precision, micro_batch in (("float32", 4), ("bfloat16", 0), ("bfloat16", 4))
            if name not in ("simclr", "hnpm")
        ),
    ],
)
def test_a_plan_foretells_a_real_step_in_parts_and_in_half_precision(photos, method, precision, micro_batch):
    recipe = small(method, precision=precision, micro_batch=micro_batch)
    real, plan = build_method(recipe, photos).to(memory_format=torch.channels_last), make_plan(recipe, Gpus(1))
    # As above; and fake tensors take statistics of batch norm for bfloat16, which are float32.
    # cpc's grid has another layout where it is put together of parts: a copy more for each direction, 4.3 %.
    near = 0.05 if method == "cpc" else 0.01 if precision == "bfloat16" else 0
    assert plan.memory.activations == pytest.approx(kept_by_a_real_step(real, recipe, photos), rel=near)
    size = recipe.image_size if method == "cpc" else recipe.view_pixels
    part = torch.randn(micro_batch, 3, size, size).to(memory_format=torch.channels_last)
    found = kept_by(lambda: real.encoder.trunk(part), real, recipe, besides=[part]) if micro_batch else 0
    assert plan.memory.part == pytest.approx(found, rel=near)
    assert plan.work.forward_equivalents == pytest.approx(forward_equivalents(recipe, photos), rel=1e-9)
    assert ("at a time" in plan_text(plan)) == bool(micro_batch)


def test_checkpoints_of_a_real_run(tmp_path):
    recipe = small("hnpm", data="sample:1000", image_size=8, epochs=1, batch_size=250)
    pretrain(recipe, tmp_path / "run", checkpoint_every=2)
    folders = list((tmp_path / "run" / "checkpoints").iterdir())
    disk = make_plan(recipe, Gpus(1)).disk
    assert len(folders) == 2
    for folder in folders:
        assert disk.checkpoint == pytest.approx(sum(file.stat().st_size for file in folder.iterdir()), rel=0.02)
    assert disk.checkpoints_kept == 2 * disk.checkpoint
    assert disk.images == 1000 * 3 * 8 * 8


@pytest.mark.slow
@pytest.mark.parametrize(("method", "optimiser"), [("hnpm", "adam"), ("hnpm", "lars"), ("instdisc", "sgd")])
def test_checkpoint_and_state_of_each_optimiser(photos, tmp_path, method, optimiser):
    recipe = small(method, optimiser=optimiser)
    real = build_method(recipe, photos)
    for parameter in real.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    stepped = build_optimiser(real, recipe, real.constant_rate())
    stepped.step()
    save_checkpoint(tmp_path, 1, real, stepped)
    plan = make_plan(recipe, Gpus(1))
    state = [value for values in stepped.state_dict()["state"].values() for value in values.values()]
    assert plan.memory.optimiser == sum(value.nbytes for value in state)
    assert plan.disk.checkpoint == pytest.approx((tmp_path / "000000001/state.safetensors").stat().st_size, rel=0.02)


@pytest.mark.slow
def test_more_gpus_share_the_batch():
    one, two, four = (make_plan(small("hnpm"), Gpus(count)) for count in (1, 2, 4))
    assert two.memory.fixed == four.memory.fixed == one.memory.fixed + one.memory.gradients  # sent round in copies
    assert one.memory.activations > 1.9 * two.memory.activations > 3.6 * four.memory.activations
    assert one.seconds == pytest.approx(4 * four.seconds, rel=0.01)
    assert one.work.total == pytest.approx(four.work.total, rel=0.01)


def test_published_figures_of_resnet50(supervised):
    assert supervised.parameters.trained == 25_557_032  # torchvision's resnet50
    assert supervised.work.encoder_per_image == pytest.approx(2 * 4.09e9, rel=0.01)  # 4.09 G multiply-adds
    assert supervised.work.forward_equivalents == pytest.approx(3, rel=0.02)
    assert supervised.disk.images == 1_281_167 * 3 * 320 * 320


def test_default_speed_is_the_published_one(supervised):
    """NVIDIA's DeepLearningExamples, PyTorch, TF32: 7,248 images/s on eight A100, 90 epochs in about five hours."""
    assert 256 / supervised.step_seconds == pytest.approx(7248, rel=0.01)
    assert 4 < supervised.seconds / 3600 < 5


def test_default_speed_in_half_precision_is_the_published_one():
    """The same page: 16,621 images/s on eight A100 in mixed precision."""
    plan = make_plan(dataclasses.replace(find_recipe("imagenet/supervised"), precision="bfloat16"), Gpus(8))
    assert 256 / plan.step_seconds == pytest.approx(16_621, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "float32") for name in LARGE_BATCHES),
        (LARGE_BATCHES[0], "bfloat16"),
        *(pytest.param(name, "bfloat16", marks=pytest.mark.soak) for name in LARGE_BATCHES[1:]),
    ],
)
def test_every_batch_of_4096_fits_a_single_gpu_of_24_gb(scale_table, name, precision):
    """In the micro-batches that the advice names, as the page says."""
    plan = scale_table.single(name, precision)
    assert plan.fits
    assert plan.gpus == Gpus(1, memory=24e9)
    assert f"| {' | '.join(scale_table.single_row(plan))} |" in PAGE.read_text().splitlines()


@pytest.mark.slow
def test_the_largest_encoder_without_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan = make_plan(find_recipe(LARGEST), Gpus(8))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB; its weights alone are 3 GB
    assert round(plan.parameters.encoder / 1e6) == 795
    assert plan.parameters.method == 2 * plan.parameters.encoder  # no head, and the student
    assert plan.memory.optimiser == pytest.approx(2 * plan.memory.weights, rel=1e-4)  # Adam
    assert plan.work.forward_equivalents == pytest.approx(4, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.05, 0.02])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_following_the_advice_makes_it_fit(memory, precision):
    recipe, gpus = small("simclr", batch_size=256, precision=precision), Gpus(2, memory=memory * 1e9)
    plan = make_plan(recipe, gpus)
    more, fewer = enough_gpus(plan), most_images(plan) * 2
    assert not plan.fits
    advice = f"give --micro-batch {plan.micro_batch} or --gpus {more} or --batch-size {fewer} (and a learning rate"
    assert advice in verdict(plan)
    assert make_plan(recipe, Gpus(more, memory=memory * 1e9)).fits
    assert make_plan(dataclasses.replace(recipe, batch_size=fewer), gpus).fits
    assert make_plan(dataclasses.replace(recipe, micro_batch=plan.micro_batch), gpus).fits
    twice = dataclasses.replace(recipe, micro_batch=2 * plan.micro_batch)
    assert 2 * plan.micro_batch >= 128 or not make_plan(twice, gpus).fits


def test_a_smaller_micro_batch_where_one_does_not_fit():
    recipe, gpus = small("simclr", batch_size=256, micro_batch=100), Gpus(1, memory=0.03e9)
    plan = make_plan(recipe, gpus)
    assert not plan.fits
    assert plan.micro_batch < 100
    assert make_plan(dataclasses.replace(recipe, micro_batch=plan.micro_batch), gpus).fits


def test_what_no_batch_makes_fit():
    plan = make_plan(small("simclr"), Gpus(1, memory=1e6))
    assert "at any batch" in verdict(plan)
    assert "--shard" in verdict(plan)


@pytest.mark.slow
def test_sharded_each_gpu_holds_a_part():
    whole, cut = (make_plan(small("hnpm", encoder="resnet26"), Gpus(4, shard=shard)).memory for shard in (False, True))
    for name in ("weights", "gradients", "optimiser"):
        assert getattr(cut, name) == pytest.approx(getattr(whole, name) / 4, rel=1e-3)
    assert cut.activations == whole.activations
    assert cut.on_the_way < whole.on_the_way
    with pytest.raises(UserError, match=r"^shard: .*--gpus"):
        Gpus(1, shard=True)


def test_table_and_json_say_the_same():
    plan = make_plan(small("byol"), Gpus(2, tflops=100))
    text, content = plan_text(plan), json.loads(json.dumps(plan_json(plan)))
    assert f"{content['parameters']['encoder'] / 1e6:.2f} M" in text
    assert f"{content['memory']['total'] / 1e6:.1f} MB  of 80.0 GB" in text
    assert f"{content['work']['steps']:,}" in text
    assert content["verdict"] in text
    assert all(line in text for line in content["assumed"])
    assert content["seconds"]["total"] == pytest.approx(content["work"]["total"] / 2 / 100e12)
    assert content["fits"]
    assert sum(content["memory"].values()) == 2 * content["memory"]["total"]


@pytest.mark.parametrize(("view_size", "size"), [(0.75, "32 px, views of 24 px"), (1.0, "32 px")])
def test_the_title_says_how_large_views_are(view_size, size):
    title = plan_text(make_plan(small("simclr", view_size=view_size), Gpus(2))).splitlines()[0]
    assert title == f"demo/simclr: simclr, resnet10 of width 0.25, {size}, batch 16, adam"


def test_first_this_machine_then_the_one_that_is_planned_for(monkeypatch):
    plan = make_plan(small("simclr"), Gpus(2))
    for gpu_here in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=gpu_here: found)
        here, planned = plan_text(plan).splitlines()[1 - gpu_here : 3 - gpu_here]
        assert planned == "planned for 2 GPUs like an A100, 22 TFLOPS and 80.0 GB each"
        assert (here == "on this machine: --here times some steps") != gpu_here


def test_what_is_assumed_is_said():
    recipe = dataclasses.replace(find_recipe("imagenet/instdisc"), encoder="resnet10", width=0.25)
    text = plan_text(make_plan(recipe, Gpus(1), images=1000))
    assert "1,000 images of imagenet, as given" in text
    assert "22 TFLOPS sustained on each GPU: what ResNet-50 reaches" in text
    assert "A100" not in plan_text(make_plan(small("hnpm"), Gpus(1, tflops=23)))
    half = make_plan(small("hnpm", precision="bfloat16", micro_batch=4), Gpus(1))
    assert half.tflops == 50
    assert "50 TFLOPS sustained on each GPU: what ResNet-50 reaches in float16" in plan_text(half)
    assert "\n  bfloat16 in encoders and heads" in plan_text(half)
    assert "encoders see 4 images at a time" in plan_text(half)
    assert plan_json(half)["gpus"]["tflops"] == 50


def test_a_baseline_with_labels_needs_some(tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=f"{tmp_path.name}/train: has no labels"):
        make_plan(small("supervised", data=str(tmp_path), batch_size=2), Gpus(1))


def test_the_random_state_is_left_alone():
    state = torch.get_rng_state()
    make_plan(small("moco"), Gpus(1))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_the_page_has_what_the_script_prints():
    words = [sys.executable, ROOT / "scripts/scale_table.py", "imagenet/hnpm", "imagenet/simclr"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    page = PAGE.read_text().splitlines()
    assert len(printed) == 4
    assert set(printed) <= set(page)
