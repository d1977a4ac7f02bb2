"""Downloads: torchvision's for the images, our own for the lists of SUN397, which torchvision leaves out."""

import zipfile
from pathlib import Path

from hardpair.data.download import fetch
from hardpair.data.transfer.sets import MissingSetError, TransferSet
from hardpair.errors import UserError, printable
from hardpair.files import write_atomically

PARTITIONS_URL = "https://vision.princeton.edu/projects/2010/SUN/download/Partitions.zip"
PARTITIONS_SHA256 = "e3311ea5f812d4cc6faef194688343d1111f6cd6f70f2c62f393c2b8d6ba1ec9"
PARTITIONS_SIZE = 18_293_705  # bytes
DOWNLOADABLE = ("food101", "sun397", "pets", "voc2007", "flowers102")  # Cars has lost its page


def download_set(name: str, root: Path, wanted: TransferSet) -> None:
    """Bring a set below `root`; what lies there already is left alone."""
    try:
        root.mkdir(parents=True, exist_ok=True)
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


def _fetch_partitions(folder: Path) -> None:
    """Official split 1 out of the archive of all ten."""
    archive = folder / "Partitions.zip"
    fetch(PARTITIONS_URL, archive, PARTITIONS_SHA256, PARTITIONS_SIZE)
    (folder / "Partitions").mkdir(exist_ok=True)
    with zipfile.ZipFile(archive) as packed:
        for file in ("Training_01.txt", "Testing_01.txt"):
            write_atomically(folder / "Partitions" / file, packed.read(file))
    archive.unlink()
