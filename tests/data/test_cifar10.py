import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from hardpair.data.cifar10 import ARCHIVE, FILES, FOLDER, RECORD, Source, read_cifar10
from hardpair.errors import UserError

RECORDS = 4
SMALL = Source(url="file:///nowhere", sha256="0" * 64, size=1, records=RECORDS)
NAMES = [name for names in FILES.values() for name in names]


def records(name: str) -> np.ndarray:
    """A few records that are different in each file."""
    block = np.random.default_rng(NAMES.index(name)).integers(0, 256, (RECORDS, RECORD), dtype=np.uint8)
    block[:, 0] = np.arange(RECORDS) + NAMES.index(name)
    return block


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / FOLDER
    folder.mkdir(parents=True)
    for name in NAMES:
        records(name).tofile(folder / name)
    return tmp_path / "data"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "elsewhere.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        bodies = {name: records(name).tobytes() for name in NAMES}
        for name, body in (bodies | {"batches.meta.txt": b"airplane\n", "readme.html": b"hello"}).items():
            info = tarfile.TarInfo(f"{FOLDER}/{name}")
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return Source(url=path.as_uri(), sha256=sha256, size=path.stat().st_size, records=RECORDS)


def test_records_become_planes_and_labels(data: Path) -> None:
    train, test = read_cifar10(data, "train", source=SMALL), read_cifar10(data, "test", source=SMALL)
    assert train.pixels.shape == (5 * RECORDS, 3, 32, 32)
    assert test.labels is not None
    assert test.labels.tolist() == [5, 6, 7, 8]
    second = torch.from_numpy(records("data_batch_2.bin")[1, 1:]).reshape(3, 32, 32)
    assert torch.equal(train.pixels[RECORDS + 1], second)
    assert (train.name, len(train.classes)) == ("cifar10/train", 10)


def test_official_size_is_ten_thousand_records(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    with (tmp_path / FOLDER / "test_batch.bin").open("wb") as file:
        file.truncate(30_730_000)
    assert len(read_cifar10(tmp_path, "test")) == 10_000


@pytest.mark.parametrize("change", [-1, 1, -RECORD, RECORD])
def test_wrong_size(data: Path, change: int) -> None:
    path = data / FOLDER / "data_batch_3.bin"
    path.write_bytes((path.read_bytes() + bytes(RECORD))[: RECORDS * RECORD + change])
    with pytest.raises(UserError, match=r"data_batch_3\.bin: .* bytes where CIFAR-10 has 12,292; delete the folder"):
        read_cifar10(data, "train", source=SMALL)


def test_missing_file(data: Path) -> None:
    (data / FOLDER / "test_batch.bin").unlink()
    with pytest.raises(UserError, match=r"test_batch\.bin: missing"):
        read_cifar10(data, "test", source=SMALL)


def test_labels_above_nine(data: Path) -> None:
    block = records("test_batch.bin")
    block[2, 0] = 10
    block.tofile(data / FOLDER / "test_batch.bin")
    with pytest.raises(UserError, match="labels above 9"):
        read_cifar10(data, "test", source=SMALL)


def test_missing_folder_is_downloaded_and_unpacked(tmp_path: Path, source: Source) -> None:
    images = read_cifar10(tmp_path / "new", "train", source=source)
    assert len(images) == 5 * RECORDS
    assert [path.name for path in (tmp_path / "new").iterdir()] == [FOLDER], "the archive is gone"
    assert len(list((tmp_path / "new" / FOLDER).iterdir())) == 8


def test_archive_put_there_by_hand_is_used_and_kept(tmp_path: Path, source: Source) -> None:
    archive = tmp_path / ARCHIVE
    archive.write_bytes((tmp_path / "elsewhere.tar.gz").read_bytes())
    offline = Source(url="file:///nowhere", sha256=source.sha256, size=source.size, records=RECORDS)
    assert len(read_cifar10(tmp_path, "test", source=offline)) == RECORDS
    assert archive.exists()


def test_wrong_archive_put_there_by_hand(tmp_path: Path, source: Source) -> None:
    (tmp_path / ARCHIVE).write_bytes(bytes(source.size))
    with pytest.raises(UserError, match=rf"{ARCHIVE}: its sha256"):
        read_cifar10(tmp_path, "test", source=source)
    assert not (tmp_path / FOLDER).exists()


def test_no_download_names_address_and_place(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_cifar10(tmp_path, "test", source=SMALL)
    assert "file:///nowhere" in str(caught.value)
    assert str(tmp_path / ARCHIVE) in str(caught.value)
