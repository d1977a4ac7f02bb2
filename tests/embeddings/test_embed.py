"""`embed` writes the vectors that the encoder gives picture by picture, whatever happens on the way."""

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from make_embedding import write_pictures
from make_encoder import make_encoder
from PIL import Image
from safetensors.torch import load_file, save_file

import hardpair as hp
from hardpair.embeddings import embed as module
from hardpair.embeddings import parts
from hardpair.embeddings.embedder import Embedder
from hardpair.embeddings.embedding import read_manifest
from hardpair.embeddings.source import Files
from hardpair.errors import UserError
from hardpair.models import load_encoder
from hardpair.views import plain_view

VECTORS = Embedder.vectors
NAMES = [f"{split}/{kind}/{row}.png" for split in ("test", "train") for kind in "ab" for row in range(9)]  # sorted


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    make_encoder(folder)
    return folder


@pytest.fixture
def photos(tmp_path):
    return write_pictures(tmp_path / "photos", NAMES)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Of eight images, computed by three, so that 36 pictures are five parts."""
    monkeypatch.setattr(parts, "PART", 8)
    monkeypatch.setattr(module, "BATCH", 3)


def embed(encoder, images, out, **options):
    return hp.embed(encoder, images, out=out, threads=1, **options)


def bytes_of(out):
    return [(out / name).read_bytes() for name in ("vectors.npy", "images.jsonl", "broken.txt")]


def one_by_one(network, path):
    """From the definition: the picture as an array, one forward."""
    with Image.open(path) as picture:
        size = (32, 32)
        square = np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BICUBIC))
    with torch.no_grad():
        return network(plain_view(torch.from_numpy(square.transpose(2, 0, 1).copy())[None]))[0].numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_and_facts_are_those_of_the_pictures(encoder, photos, tmp_path, dtype):
    made = embed(encoder, photos, tmp_path / "emb", dtype=dtype)
    assert sorted(made.files) == NAMES
    network = load_encoder(encoder)
    for row, name in enumerate(made.files):
        expected = one_by_one(network, photos / name).astype(dtype)
        np.testing.assert_allclose(made.vectors[row], expected, rtol=1e-3, atol=1e-4 if dtype == "float32" else 2e-3)
        split, kind, _ = name.split("/")
        assert (made.splits[row], made.label(row)) == (split, kind)
        assert made.sha256[row] == hashlib.sha256((photos / name).read_bytes()).hexdigest()
    assert made.sides.tolist() == [[40, 40]] * len(NAMES)
    assert made.vectors.dtype == dtype
    assert made.root == photos
    known = read_manifest(made.folder)
    pictures = "".join(hashlib.sha256((photos / name).read_bytes()).hexdigest() for name in made.files)
    assert known["images"]["digest"] == hashlib.sha256(pictures.encode()).hexdigest()
    assert known["vectors_sha256"] == hashlib.sha256((made.folder / "vectors.npy").read_bytes()).hexdigest()
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "broken.txt",
        "images.jsonl",
        "manifest.json",
        "vectors.npy",
    ]


def test_pictures_turned_by_a_camera_have_the_sides_that_people_see(encoder, tmp_path):
    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    for kind in ("jpg", "png"):
        Image.new("RGB", (60, 40)).save(tmp_path / f"photos/a.{kind}", exif=exif)
    assert embed(encoder, tmp_path / "photos", tmp_path / "emb").sides.tolist() == [[40, 60]] * 2


def test_a_stop_costs_the_part_in_hand(encoder, photos, tmp_path, monkeypatch):
    embed(encoder, photos, tmp_path / "straight")
    computed = stop_after(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        embed(encoder, photos, tmp_path / "emb")
    assert len(computed) == 4, "one part of three batches is done, and the first of the next is lost"
    with pytest.raises(UserError, match="not finished"):
        hp.open_embedding(tmp_path / "emb")
    computed = stop_after(monkeypatch, 1000)
    embed(encoder, photos, tmp_path / "emb")
    assert len(computed) == 14 - 3, "36 images are four parts of three batches and one of two, less the first part"
    assert bytes_of(tmp_path / "emb") == bytes_of(tmp_path / "straight")


def stop_after(patch, batches):
    """Ctrl-C in the middle of a batch; the sizes of those before it."""
    computed = []

    def interrupted(self, pixels):
        if len(computed) == batches:
            raise KeyboardInterrupt
        computed.append(len(pixels))
        return VECTORS(self, pixels)

    patch.setattr(Embedder, "vectors", interrupted)
    return computed


def test_a_finished_embedding_is_opened_and_nothing_computed(encoder, photos, tmp_path, monkeypatch):
    embed(encoder, photos, tmp_path / "emb")
    before = bytes_of(tmp_path / "emb")
    monkeypatch.setattr(Files, "read", None)
    assert len(embed(encoder, photos, tmp_path / "emb")) == len(NAMES)
    (tmp_path / "emb/parts").mkdir()  # killed at the very end
    embed(encoder, photos, tmp_path / "emb")
    assert not (tmp_path / "emb/parts").exists()
    assert bytes_of(tmp_path / "emb") == before


@pytest.mark.parametrize("finished", [True, False])
def test_another_embedding_is_not_gone_on_with(encoder, photos, tmp_path, monkeypatch, finished):
    with monkeypatch.context() as patch:
        stop_after(patch, 1000 if finished else 4)
        with nullcontext() if finished else pytest.raises(KeyboardInterrupt):
            embed(encoder, photos, tmp_path / "emb")
    make_encoder(tmp_path / "other", seed=1)
    for change in ({"dtype": "float16"}, {"image_size": 24}, {"encoder": tmp_path / "other"}):
        with pytest.raises(UserError, match="another"):
            embed(**{"encoder": encoder, "images": photos, "out": tmp_path / "emb"} | change)
    write_pictures(photos, [NAMES[5]], side=41, seed=7)
    with pytest.raises(UserError, match="changed"):
        embed(encoder, photos, tmp_path / "emb")


def test_what_cannot_be_read_is_left_out_and_listed(encoder, photos, tmp_path, monkeypatch):
    (photos / NAMES[3]).write_bytes((photos / NAMES[3]).read_bytes()[:50])
    (photos / NAMES[20]).write_bytes(b"")
    read, gone = Files.read, photos / NAMES[35]

    def while_a_picture_goes(self, *span):
        gone.unlink(missing_ok=True)  # between the listing and the reading
        return read(self, *span)

    monkeypatch.setattr(Files, "read", while_a_picture_goes)
    made = embed(encoder, photos, tmp_path / "emb")
    lost = {NAMES[3], NAMES[20], NAMES[35]}
    assert set(made.files) == set(NAMES) - lost
    lines = (tmp_path / "emb/broken.txt").read_text().splitlines()
    assert {line.split(": ")[0] for line in lines} == lost
    assert made.manifest["images"]["broken"] == 3
    row = made.files.index(NAMES[4])
    np.testing.assert_allclose(
        made.vectors[row], one_by_one(load_encoder(encoder), photos / NAMES[4]), rtol=1e-3, atol=1e-4
    )


def test_nothing_that_can_be_read(encoder, tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(UserError, match="no images"):
        embed(encoder, tmp_path / "photos", tmp_path / "emb")
    assert not (tmp_path / "emb").exists()
    (tmp_path / "photos/a.jpg").write_bytes(b"no picture")
    for _ in range(2):
        with pytest.raises(UserError, match=r"broken\.txt: says why none of 1 "):
            embed(encoder, tmp_path / "photos", tmp_path / "emb")
    assert (tmp_path / "emb/broken.txt").read_text().startswith("a.jpg: ")


@pytest.mark.parametrize("name", ["new\nline.png", os.fsdecode(b"latin\xe9.png"), "<b>&amp;.png", "a b ☃.png"])
def test_odd_names_survive_and_one_broken_is_one_line(encoder, tmp_path, name):
    photos = write_pictures(tmp_path / "photos", [name, "plain.png"])
    (photos / f"z{name}").write_bytes(b"no picture")
    made = embed(encoder, photos, tmp_path / "emb", format="csv")
    assert sorted(made.files) == sorted([name, "plain.png"])
    assert (made.root / made.files[made.files.index(name)]).exists()
    assert len((tmp_path / "emb/broken.txt").read_text().splitlines()) == 1
    assert json.loads((tmp_path / "emb/images.jsonl").read_bytes().splitlines()[made.files.index(name)])["width"] == 40


def spoil(encoder, tmp_path, change):
    """A copy of the encoder with other weights."""
    shutil.copytree(encoder, tmp_path / "spoilt")
    tensors = load_file(encoder / "encoder.safetensors")
    save_file({name: change(name, value) for name, value in tensors.items()}, tmp_path / "spoilt/encoder.safetensors")
    shape = json.loads((encoder / "encoder.json").read_text())
    del shape["weights_sha256"]
    (tmp_path / "spoilt/encoder.json").write_text(json.dumps(shape))
    return tmp_path / "spoilt"


def test_vectors_that_are_not_finite_are_not_written(encoder, photos, tmp_path):
    spoilt = spoil(encoder, tmp_path, lambda _, value: value * torch.nan if value.is_floating_point() else value)
    with pytest.raises(UserError, match=r"not finite for .*\.png"):
        embed(spoilt, photos, tmp_path / "emb")
    assert not list((tmp_path / "emb").rglob("*.part"))


def test_vectors_too_large_for_float16_are_refused(encoder, photos, tmp_path):
    spoilt = spoil(encoder, tmp_path, lambda name, value: value * 1e6 if name == "trunk.bn1.weight" else value)
    with pytest.raises(UserError, match="float32"):
        embed(spoilt, photos, tmp_path / "emb", dtype="float16")
    embed(spoilt, photos, tmp_path / "other")


def test_a_damaged_encoder_is_named(encoder, photos, tmp_path):
    spoilt = spoil(encoder, tmp_path, lambda _, value: value)
    content = (spoilt / "encoder.safetensors").read_bytes()
    (spoilt / "encoder.safetensors").write_bytes(content[:-100])
    with pytest.raises(UserError, match=r"encoder\.safetensors"):
        embed(spoilt, photos, tmp_path / "emb")
    assert not (tmp_path / "emb").exists()


def test_a_size_that_the_encoder_cannot_take_is_refused_with_those_near_it(photos, tmp_path):
    make_encoder(tmp_path / "vit", "test_vit", width=1, small_images=False)
    for size, near in ((50, "48 px and 64 px"), (8, "16 px")):
        words = f"^image_size: test_vit cannot take views of {size} px; sizes near it that work: {near}$"
        with pytest.raises(UserError, match=words):
            embed(tmp_path / "vit", photos, tmp_path / "emb", image_size=size)
    assert len(embed(tmp_path / "vit", photos, tmp_path / "emb", image_size=48)) == len(NAMES)


def test_an_encoder_that_is_not_there(photos, tmp_path):
    with pytest.raises(UserError, match=r"^encoder: 'nope': no such file or run"):
        embed("nope", photos, tmp_path / "emb")


def test_two_processes_do_not_share_a_folder(encoder, photos, tmp_path):
    (tmp_path / "emb/parts").mkdir(parents=True)
    with (tmp_path / "emb/parts/lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process"):
            embed(encoder, photos, tmp_path / "emb")
    assert len(embed(encoder, photos, tmp_path / "emb")) == len(NAMES)


def test_room_is_looked_for_before_the_work(encoder, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(Files, "read", None)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 2 * 36 * 4 * 128))
    with pytest.raises(UserError, match="disk") as caught:
        embed(encoder, photos, tmp_path / "emb")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ["a file", "a folder of other things"])
def test_what_somebody_else_keeps_there_is_left_alone(encoder, photos, tmp_path, what):
    if what == "a file":
        (tmp_path / "emb").write_text("mine")
    else:
        (tmp_path / "emb").mkdir()
        (tmp_path / "emb/mine").write_text("mine")
    with pytest.raises(UserError, match="emb: "):
        embed(encoder, photos, tmp_path / "emb")
    assert (tmp_path / "emb" if what == "a file" else tmp_path / "emb/mine").read_text() == "mine"


@pytest.mark.parametrize("damage", ["short", "bits", "begun"])
def test_damaged_parts_are_computed_again(encoder, photos, tmp_path, monkeypatch, damage):
    embed(encoder, photos, tmp_path / "straight")
    with monkeypatch.context() as patch:
        stop_after(patch, 9)
        with pytest.raises(KeyboardInterrupt):
            embed(encoder, photos, tmp_path / "emb")
    file = tmp_path / "emb/parts" / ("begun.json" if damage == "begun" else f"{8:012d}.part")
    content = file.read_bytes()
    file.write_bytes(content[:-5] if damage != "bits" else content[:-5] + bytes(5))
    if damage != "short":  # which nobody needs to know
        with pytest.raises(UserError, match=file.name):
            embed(encoder, photos, tmp_path / "emb")
    if damage == "begun":
        shutil.rmtree(tmp_path / "emb")
    embed(encoder, photos, tmp_path / "emb")
    assert bytes_of(tmp_path / "emb") == bytes_of(tmp_path / "straight")


def test_a_list_of_files_and_the_folder_give_the_same_vectors(encoder, photos, tmp_path):
    whole = embed(encoder, photos, tmp_path / "whole")
    chosen = [name for name in NAMES if name.endswith(("3.png", "5.png"))]
    lines = [str(photos / name) if row % 2 else f"photos/{name}" for row, name in enumerate(chosen)]
    (tmp_path / "keep.txt").write_text("\n".join(reversed(lines)))
    made = embed(encoder, tmp_path / "keep.txt", tmp_path / "emb")
    assert sorted(made.files) == chosen
    for row, name in enumerate(made.files):
        place = whole.files.index(name)
        assert (made.label(row), made.splits[row]) == (whole.label(place), whole.splits[place])
        np.testing.assert_allclose(made.vectors[row], whole.vectors[place], rtol=1e-4, atol=1e-5)


def test_named_and_packed_sets(encoder, photos, tmp_path, monkeypatch):
    from hardpair.data.pack import pack

    monkeypatch.setattr(module, "BATCH", 128)
    monkeypatch.setattr(parts, "PART", 400)
    made = embed(encoder, "sample:20", tmp_path / "sample", image_size=32)
    assert len(made) == 1020
    assert set(made.splits) == {"train", "test"}
    pack(photos, tmp_path / "packed", 32)
    packed, plain = embed(encoder, tmp_path / "packed", tmp_path / "a"), embed(encoder, photos, tmp_path / "b")
    for row, name in enumerate(packed.files):
        [same] = [
            place
            for place, (file, split) in enumerate(zip(plain.files, plain.splits, strict=True))
            if (file, split) == (f"{packed.splits[row]}/{name}", packed.splits[row])
        ]
        np.testing.assert_allclose(packed.vectors[row], plain.vectors[same], rtol=1e-4, atol=1e-5)


def test_the_command(encoder, photos, hardpair, tmp_path):
    done = hardpair("embed", str(encoder), str(photos), "--out", "emb", "--threads", "1", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert f"{len(NAMES)} images of 2 classes" in done.stdout
    assert (tmp_path / "emb/embedding.csv").exists()


def test_the_next_pictures_are_read_while_these_are_worked_on(photos):
    """The third span is begun when the first has been handed out, and not before."""
    from hardpair.data.layout import list_whole
    from hardpair.embeddings.source import read_ahead

    source, asked = Files("photos", *list_whole(Path(photos)), 32), []

    def spans():
        for start in range(0, 30, 5):
            asked.append(start)
            yield start, start + 5

    batches = read_ahead(source, spans())
    next(batches)
    assert asked == [0, 5, 10]
    assert [len(batch.facts) for batch in batches] == [5] * 5
