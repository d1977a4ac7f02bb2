"""Archives made by hand to break out, to loop or to burst: refused in one line, and nothing is left."""

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hostile import little_memory, within
from torchvision import datasets
from transfer_layouts import write_sun397

from hardpair.data.cifar10 import ARCHIVE, Source, read_cifar10
from hardpair.data.download import unpack
from hardpair.data.transfer import MissingSetError, open_transfer
from hardpair.data.transfer import downloads as module
from hardpair.errors import UserError

LIMITS = {"set/a.bin": 10, "set/b.bin": 10}


def block(name: str, size: int, kind: bytes = b"0", body: bytes = b"") -> bytes:
    """One entry of a tar file; its size may be a lie, or negative."""
    info = tarfile.TarInfo(name)
    info.type = kind
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    field = b"%011o\0" % size if 0 <= size < 8**11 else (size % 2**95 | (1 << 95)).to_bytes(12, "big")
    head[124:136] = field if size >= 0 else b"\xff" + (size % 2**88).to_bytes(11, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + body + bytes(-len(body) % 512)


GOOD = block("set/a.bin", 3, body=b"aaa") + block("set/b.bin", 3, body=b"bbb")
PAX = b"%d path=set/a.bin\n" % len("18 path=set/a.bin\n")
BAD = {
    "long names without end": block("././@LongLink", 4, b"L", b"set\0") * 3000 + GOOD,
    "headers without end": block("pax", len(PAX), b"x", PAX) * 3000 + GOOD,
    "a negative size": block("set/a.bin", -512) + GOOD,
    "a size that leads back to itself": block("set/x", -1024) + GOOD,
    "a size of 2**60": block("set/a.bin", 2**60) + GOOD,
    "another member of 2**60": block("set/x", 2**60) + GOOD,
    "a name of 2**60 bytes": block("././@LongLink", 2**60, b"L") + GOOD,
    "sparse, and 2**60 when spread": block("set/a.bin", 2**60, b"S") + GOOD,
    "a pipe": block("set/a.bin", 0, b"6") + GOOD,
    "a block device": block("set/a.bin", 0, b"4") + GOOD,
    "a link to itself": block("set/a.bin", 0, b"1") + GOOD,
    "twice": GOOD + GOOD,
    "cut short": GOOD[:1100],
    "rubbish": bytes(range(256)) * 8,
}


@pytest.mark.parametrize("case", BAD)
def test_bad_archives_leave_nothing(tmp_path: Path, case: str) -> None:
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(gzip.compress(BAD[case] + bytes(1024)))
    with within(10), little_memory(100), pytest.raises(UserError, match=r"x\.tar\.gz: cannot be unpacked") as caught:
        unpack(archive, tmp_path / "out", LIMITS)
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == [archive]


def test_the_good_part_alone_unpacks(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(GOOD + bytes(1024)))
    unpack(tmp_path / "x.tar.gz", tmp_path / "out", LIMITS)
    assert (tmp_path / "out" / "b.bin").read_bytes() == b"bbb"


def test_zeros_are_not_unpacked_to_their_end(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "x.tar.gz", "wb", compresslevel=1) as out:
        out.write(block("set/x", 2**30))
        for _ in range(4):
            out.write(bytes(2**22))
    with within(10), little_memory(100), pytest.raises(UserError, match="it holds more than it should"):
        unpack(tmp_path / "x.tar.gz", tmp_path / "out", LIMITS)


def test_a_bomb_put_there_by_hand_is_refused_by_its_hash(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(gzip.compress(bytes(10**6)))
    source = Source(url="file:///nowhere", sha256="0" * 64, size=(tmp_path / ARCHIVE).stat().st_size)
    with pytest.raises(UserError, match="its sha256 is not"):
        read_cifar10(tmp_path, "test", source=source)
    assert [path.name for path in tmp_path.iterdir()] == [ARCHIVE]


def tar(path: Path, *members: tuple[str, bytes, str]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, 4 if kind == tarfile.REGTYPE else 0
            out.addfile(info, io.BytesIO(b"evil"))
    return path


ESCAPES = {
    "up": [("../escaped", tarfile.REGTYPE, "")],
    "up within": [("images/../../escaped", tarfile.REGTYPE, "")],
    "through a link": [("link", tarfile.SYMTYPE, "../.."), ("link/escaped", tarfile.REGTYPE, "")],
    "hard link": [("escaped", tarfile.LNKTYPE, "../../secret")],
    "device": [("images/null", tarfile.CHRTYPE, "")],
}


def plain_extract(source: str, target: str, _compression: str | None) -> None:
    """As torchvision unpacked before it had a filter of its own."""
    with tarfile.open(source) as packed:
        packed.extractall(target)


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python has no filter for archives")
@pytest.mark.parametrize("own_filter", [True, False])
@pytest.mark.parametrize("case", ESCAPES)
def test_torchvisions_archives_stay_in_their_folder(
    tmp_path: Path, case: str, own_filter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even an archive with the right hash; it lies where torchvision would download it to."""
    folder = tmp_path / "a" / "b" / "oxford-iiit-pet"
    folder.mkdir(parents=True)
    archive = tar(folder / "images.tar.gz", *ESCAPES[case])
    (tmp_path / "a" / "secret").write_text("secret")
    digest = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(datasets.OxfordIIITPet, "_RESOURCES", [("http://127.0.0.1:9/images.tar.gz", digest)])
    if not own_filter:
        monkeypatch.setitem(datasets.utils._ARCHIVE_EXTRACTORS, ".tar", plain_extract)
    before = getattr(tarfile.TarFile, "extraction_filter", None)
    with pytest.raises(
        MissingSetError, match=r"cannot be downloaded \(.*(would be extracted|would link|outside|special file)"
    ) as caught:
        open_transfer("pets", "test", size=12, root=folder.parent, download=True)
    assert str(caught.value).isprintable()
    assert getattr(tarfile.TarFile, "extraction_filter", None) is before
    assert not list(tmp_path.rglob("*escaped*"))
    assert not [path for path in folder.rglob("*") if path.is_char_device()]


def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("Training_01.txt", b"/a/abbey/sun.jpg\n")
        packed.writestr("Testing_01.txt", bytes(20_000_000))
    return out.getvalue()


def lying_bomb() -> bytes:
    """Its tables say that the list is short."""
    return bomb().replace(struct.pack("<I", 20_000_000), struct.pack("<I", 20))


def without_lists() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("../../Training_01.txt", b"/a/abbey/sun.jpg\n")
    return out.getvalue()


@pytest.mark.parametrize("make", [bomb, lying_bomb, without_lists, lambda: b"no zip", lambda: bomb()[:-30]])
def test_lists_of_sun397_are_whole_or_not_there(root: Path, tmp_path: Path, make, monkeypatch) -> None:
    made, archive = write_sun397(root), tmp_path / "lists.zip"
    for file in (made.folder / "Partitions").iterdir():
        file.unlink()
    (made.folder / "Partitions").rmdir()
    archive.write_bytes(make())
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(datasets, "SUN397", lambda *_, **__: None)
    monkeypatch.setattr(module, "PARTITIONS_URL", archive.as_uri())
    monkeypatch.setattr(module, "PARTITIONS_SIZE", archive.stat().st_size)
    monkeypatch.setattr(module, "PARTITIONS_SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    with little_memory(100), pytest.raises(MissingSetError, match="cannot be downloaded") as caught:
        open_transfer("sun397", "test", size=12, root=root, download=True, wanted=made.wanted)
    assert str(caught.value).isprintable()
    assert sorted(tmp_path.rglob("*")) == before
