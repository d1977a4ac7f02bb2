"""Downloads: torchvision's for the images, our own for the lists of SUN397, which torchvision leaves out."""

import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardpair.data.download import fetch
from hardpair.data.transfer.sets import MissingSetError, TransferSet
from hardpair.errors import UserError, printable
from hardpair.files import write_atomically

PARTITIONS_URL = "https://vision.princeton.edu/projects/2010/SUN/download/Partitions.zip"
PARTITIONS_SHA256 = "e3311ea5f812d4cc6faef194688343d1111f6cd6f70f2c62f393c2b8d6ba1ec9"
PARTITIONS_SIZE = 18_293_705  # bytes
LIST_SIZE = 10_000_000  # bytes that a list may have; the real ones have one million
DOWNLOADABLE = ("food101", "sun397", "pets", "voc2007", "flowers102")  # Cars has lost its page


def download_set(name: str, root: Path, wanted: TransferSet) -> None:
    """Bring a set below `root`; what lies there already is left alone."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _tar_filter():
            _download(name, root)
    except UserError:
        raise
    except Exception as error:  # networks, archives and torchvision raise nearly anything
        reason = printable(str(error))[:120] or type(error).__name__
        raise MissingSetError(wanted, root / wanted.folder, f"cannot be downloaded ({reason})") from error


def _download(name: str, root: Path) -> None:
    from torchvision import datasets  # takes a second

    match name:
        case "food101":
            datasets.Food101(root, download=True)
        case "sun397":
            datasets.SUN397(root, download=True)
            _fetch_partitions(root / "SUN397")
        case "pets":
            datasets.OxfordIIITPet(root, download=True)
        case "voc2007":
            for part in ("train", "test"):  # two archives; that of train holds val too
                datasets.VOCDetection(root, year="2007", image_set=part, download=True)
        case "flowers102":
            datasets.Flowers102(root, download=True)


@contextmanager
def _tar_filter() -> Iterator[None]:
    """torchvision unpacks all that an archive holds; with this nothing of it lands outside the folder, or is a device.

    Python before 3.11.4 has no such filter, and that of 3.14 is always on.
    """
    before = getattr(tarfile.TarFile, "extraction_filter", None)
    if hasattr(tarfile, "data_filter"):
        tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)
    try:
        yield
    finally:
        tarfile.TarFile.extraction_filter = before


def _fetch_partitions(folder: Path) -> None:
    """Official split 1 out of the archive of all ten."""
    archive = folder / "Partitions.zip"
    fetch(PARTITIONS_URL, archive, PARTITIONS_SHA256, PARTITIONS_SIZE)
    try:
        with zipfile.ZipFile(archive) as packed:
            lists = {file: _read_list(packed, file) for file in ("Training_01.txt", "Testing_01.txt")}
        (folder / "Partitions").mkdir(exist_ok=True)
        for file, content in lists.items():
            write_atomically(folder / "Partitions" / file, content)
    finally:
        archive.unlink()


def _read_list(packed: zipfile.ZipFile, file: str) -> bytes:
    with packed.open(file) as stream:
        content = stream.read(LIST_SIZE + 1)
    if len(content) > LIST_SIZE:
        raise ValueError(f"{file} holds more than it should")
    return content
