import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hardpair.data.download import fetch, unpack
from hardpair.errors import UserError

BODY = bytes(range(256)) * 9000  # more than one block
SHA256 = hashlib.sha256(BODY).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "body.bin").write_bytes(BODY)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as service:
        Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{service.server_address[1]}"
        service.shutdown()


def test_fetch_over_http(server: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "body.bin"
    fetch(f"{server}/body.bin", target, SHA256, len(BODY))
    assert target.read_bytes() == BODY
    assert list(target.parent.iterdir()) == [target]


def test_fetch_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(BODY)
    fetch((tmp_path / "source").as_uri(), tmp_path / "target", SHA256, len(BODY))
    assert (tmp_path / "target").read_bytes() == BODY


@pytest.mark.parametrize(
    ("name", "sha256", "size", "words"),
    [
        ("body.bin", "0" * 64, len(BODY), "sha256"),
        ("body.bin", SHA256, len(BODY) + 1, "bytes where"),
        ("body.bin", SHA256, len(BODY) - 1, "bytes where"),
        ("gone.bin", SHA256, len(BODY), "404"),
    ],
)
def test_wrong_downloads_leave_nothing(
    server: str, tmp_path: Path, name: str, sha256: str, size: int, words: str
) -> None:
    target = tmp_path / "new" / "body.bin"
    with pytest.raises(UserError, match=words) as caught:
        fetch(f"{server}/{name}", target, sha256, size)
    assert f"{server}/{name}" in str(caught.value)
    assert list(target.parent.iterdir()) == []


def test_no_internet_names_the_address_and_the_place(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as service:
        url = f"http://127.0.0.1:{service.server_address[1]}/x.tar.gz"  # closed again before the download
    with pytest.raises(UserError) as caught:
        fetch(url, tmp_path / "x.tar.gz", SHA256, 1)
    assert url in str(caught.value)
    assert str(tmp_path / "x.tar.gz") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_schemes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only http, https and file"):
        fetch("ftp://127.0.0.1/x", tmp_path / "x", SHA256, 1)


def test_unwritable_target(server: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be downloaded"):
        fetch(f"{server}/body.bin", tmp_path / "file" / "body.bin", SHA256, len(BODY))


LIMITS = {"set/a.bin": 10, "set/b.bin": 10}


def member(
    name: str, body: bytes = b"12345", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(body)
    return info, body


GOOD = [member("set/a.bin", b"aaa"), member("set/b.bin", b"bbb")]


def pack(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, body in members:
            tar.addfile(info, io.BytesIO(body))
    return path


def test_only_listed_members_are_written(tmp_path: Path) -> None:
    strangers = [
        member("set", b"", tarfile.DIRTYPE),
        member("../escape.bin"),
        member("/absolute.bin"),
        member("set/../../escape.bin"),
        member("set/link", b"", tarfile.SYMTYPE, "/"),
        member("set/link/a.bin"),
        member("set/c.bin"),
    ]
    archive = pack(tmp_path / "x.tar.gz", strangers + GOOD)
    unpack(archive, tmp_path / "out", LIMITS)
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"a.bin": b"aaa", "b.bin": b"bbb"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x.tar.gz"]


BAD = {
    "symbolic link": [member("set/a.bin", b"", tarfile.SYMTYPE, "/etc/hostname"), GOOD[1]],
    "hard link": [GOOD[1], member("set/a.bin", b"", tarfile.LNKTYPE, "set/b.bin")],
    "device": [member("set/a.bin", b"", tarfile.CHRTYPE), GOOD[1]],
    "folder": [member("set/a.bin", b"", tarfile.DIRTYPE), GOOD[1]],
    "too large": [member("set/a.bin", b"x" * 11), GOOD[1]],
    "twice": [*GOOD, GOOD[0]],
    "missing": [GOOD[0]],
    "bomb": [member("set/stranger.bin", bytes(50_000_000)), *GOOD],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_archives_leave_nothing(tmp_path: Path, case: str) -> None:
    archive = pack(tmp_path / "x.tar.gz", BAD[case])
    with pytest.raises(UserError, match=r"x\.tar\.gz: cannot be unpacked"):
        unpack(archive, tmp_path / "out", LIMITS)
    assert list(tmp_path.iterdir()) == [archive]


def test_a_bomb_is_not_unpacked_to_its_end(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tar.gz", BAD["bomb"])
    with pytest.raises(UserError, match="it holds more than it should"):
        unpack(archive, tmp_path / "out", LIMITS)


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", gzip.compress(b"no tar" * 500), None], ids=["empty", "no gzip", "no tar", "cut"]
)
def test_what_is_no_archive(tmp_path: Path, content: bytes | None) -> None:
    archive = pack(tmp_path / "x.tar.gz", GOOD)
    archive.write_bytes(archive.read_bytes()[:60] if content is None else content)
    with pytest.raises(UserError, match=r"x\.tar\.gz: cannot be unpacked"):
        unpack(archive, tmp_path / "out", LIMITS)
    assert list(tmp_path.iterdir()) == [archive]
