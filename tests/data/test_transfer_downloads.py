"""Downloads of transfer sets: only when asked for, only of what is missing."""

import hashlib
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from torchvision import datasets
from transfer_layouts import WRITERS, seen, write_cars, write_pets, write_sun397

from hardpair.data.transfer import MissingSetError, open_transfer
from hardpair.data.transfer import downloads as module
from hardpair.errors import UserError

Calls = list[tuple[str, dict[str, Any]]]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A real server of a folder."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as running:
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()
        thread.join()


@pytest.fixture
def calls(root: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What is asked of torchvision, which brings nothing."""
    made: Calls = []
    for kind in ("Food101", "SUN397", "OxfordIIITPet", "VOCDetection", "Flowers102"):

        def record(folder: Path, kind: str = kind, **settings: object) -> None:
            assert folder == root
            made.append((kind, settings))

        monkeypatch.setattr(datasets, kind, record)
    return made


@pytest.mark.filterwarnings("ignore:Python 3.14 will, by default, filter:DeprecationWarning")  # torchvision's unpacking
def test_pets_come_from_a_server_and_are_fetched_once(
    tmp_path: Path, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, served = server
    made = write_pets(tmp_path / "origin")
    resources = []
    for part in ("images", "annotations"):
        with tarfile.open(served / f"{part}.tar.gz", "w:gz") as tar:
            tar.add(made.folder / part, part)
        digest = hashlib.md5((served / f"{part}.tar.gz").read_bytes()).hexdigest()
        resources.append((f"{address}/{part}.tar.gz", digest))
    monkeypatch.setattr(datasets.OxfordIIITPet, "_RESOURCES", resources)
    root = tmp_path / "new" / "root"
    first = open_transfer("pets", "test", size=12, root=root, download=True, wanted=made.wanted)
    assert seen(first) == made.truth["test"]
    monkeypatch.setattr(module, "_download", None)
    assert len(open_transfer("pets", "train", size=12, root=root, download=True, wanted=made.wanted)) == 36


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("food101", [("Food101", {"download": True})]),
        ("pets", [("OxfordIIITPet", {"download": True})]),
        ("flowers102", [("Flowers102", {"download": True})]),
        (
            "voc2007",
            [("VOCDetection", {"year": "2007", "image_set": part, "download": True}) for part in ("train", "test")],
        ),
        ("cars", []),
    ],
)
def test_torchvision_is_asked_and_what_it_did_not_bring_is_named(
    name: str, expected: Calls, root: Path, calls: Calls
) -> None:
    with pytest.raises(MissingSetError, match="is missing"):
        open_transfer(name, "train", size=12, root=root)
    assert calls == []
    with pytest.raises(MissingSetError, match="is missing"):
        open_transfer(name, "train", size=12, root=root, download=True)
    assert calls == expected


def test_lists_of_sun397_are_fetched_beside_the_images(
    root: Path, tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, archive = write_sun397(root), tmp_path / "lists.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted((made.folder / "Partitions").iterdir()):
            packed.write(file, file.name)
            file.unlink()
    monkeypatch.setattr(module, "PARTITIONS_URL", archive.as_uri())
    monkeypatch.setattr(module, "PARTITIONS_SIZE", archive.stat().st_size)
    with pytest.raises(UserError, match="its sha256 is not e3311ea5"):
        open_transfer("sun397", "test", size=12, root=root, download=True, wanted=made.wanted)
    monkeypatch.setattr(module, "PARTITIONS_SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    images = open_transfer("sun397", "test", size=12, root=root, download=True, wanted=made.wanted)
    assert seen(images) == made.truth["test"]
    assert calls[-1] == ("SUN397", {"download": True})
    assert sorted(file.name for file in made.folder.iterdir() if file.is_file()) == ["ClassName.txt"]


def test_a_failed_download_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("File not found\nor corrupted.")

    monkeypatch.setattr(datasets, "Food101", fail)
    with pytest.raises(MissingSetError, match=r"food-101: cannot be downloaded \(File not found\?or corrupted"):
        open_transfer("food101", "test", size=12, root=root, download=True)


def test_cifar10_is_downloaded_when_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, *_: object) -> None:
        raise UserError(f"{url}: asked for")

    monkeypatch.setattr("hardpair.data.cifar10.fetch", refuse)
    with pytest.raises(UserError, match=r"cifar-10-binary\.tar\.gz: asked for"):
        open_transfer("cifar10", "train", size=32, root=root, download=True)


@pytest.mark.parametrize("name", ["pets", "cifar10"])
def test_what_is_there_is_not_downloaded_again(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = WRITERS[name](root)
    monkeypatch.setattr(module, "_download", None)
    monkeypatch.setattr("hardpair.data.cifar10.fetch", None)
    images = open_transfer(name, "test", size=12, root=root, download=True, wanted=made.wanted)
    assert seen(images) == made.truth["test"]


def test_cars_that_are_there_can_be_read_with_downloads_allowed(root: Path, calls: Calls) -> None:
    made = write_cars(root)
    images = open_transfer("cars", "test", size=12, root=root, download=True, wanted=made.wanted)
    assert seen(images) == made.truth["test"]
