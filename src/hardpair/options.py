"""What each verb may be told, as dataclasses for the command line; nothing heavy is imported here."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

ProtocolName = Literal["knn", "linear", "semi", "transfer", "distill"]
PresetName = Literal["simclr", "byol", "byol-scaled", "simclrv2", "simclrv2-wide"]
SetName = Literal["food101", "cifar10", "sun397", "cars", "pets", "voc2007", "flowers102"]

A100_TFLOPS = (
    22.0  # that each of eight sustains in training ResNet-50, a seventh of its peak (docs/explanation/scale.md)
)


@dataclass(frozen=True)
class Knn:
    """For --protocol knn.

    Args:
        k: neighbours that vote.
        temperature: of the votes.
    """

    k: int = 200
    temperature: float = 0.1


@dataclass(frozen=True)
class Tuned:
    """For --protocol linear (augmented), semi and the beginning of distill; what is not given is as published.

    Args:
        augmented: linear in ImageNet's form: a layer trained by SGD on random crops; else a regression on features.
        labels: shares of the labels, for semi and distill.
        subset_seed: which images are labelled, where there is no official list.
        preset: whose settings to fine-tune with, for semi and distill.
        epochs: in place of the published number.
        batch_size: in place of the published one; the learning rate follows by the preset's rule.
    """

    augmented: bool = False
    labels: tuple[float, ...] = (0.01, 0.1)
    subset_seed: int = 0
    preset: PresetName = "simclr"
    epochs: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class Distilled:
    """For --protocol distill, once a network has been fine-tuned as for semi.

    Args:
        learner: the encoder that learns ("resnet18"); the same shape when not given.
        learner_width: its width.
        learner_epochs: passes over all training images.
        learner_batch_size: images per step; the learning rate follows its square root.
    """

    learner: str | None = None
    learner_width: float = 1.0
    learner_epochs: int = 400
    learner_batch_size: int = 4096


@dataclass(frozen=True)
class Transferred:
    """For --protocol transfer.

    Args:
        sets: all seven when not given; those that are not on disk are marked as missing.
        finetune: train the whole network instead of a regression on features.
        grid: of fine-tuning: four trainings of 500 steps, or the published 56 of 20,000.
        steps: of each training, in place of the grid's.
        download: get missing sets where torchvision can.
    """

    sets: tuple[SetName, ...] = ()
    finetune: bool = False
    grid: Literal["short", "published"] = "short"
    steps: int | None = None
    download: bool = False


@dataclass(frozen=True)
class Evaluate:
    """Score the encoder of a run on labelled images, and a randomly initialised encoder of the same shape.

    knn: weighted votes of the nearest neighbours. linear: a linear classifier on the features. semi: fine-tuning with
    few labels. distill: that network then teaches another on the unlabelled images. transfer: other data sets.
    docs/explanation/protocols.md has every detail.

    Args:
        run: folder of the run.
        protocol: which protocols.
        data: labelled images; those of the run when not given. transfer has its own.
        image_size: pixels; those of the run when not given.
        on: "test", or "validation": a fifth of the training images, for every choice you make.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    run: tyro.conf.Positional[Path]
    protocol: tuple[ProtocolName, ...] = ("knn", "linear")
    data: str | None = None
    image_size: int | None = None
    on: Literal["test", "validation"] = "test"
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0
    knn: Knn = field(default_factory=Knn)
    tuned: Tuned = field(default_factory=Tuned)
    distilled: Distilled = field(default_factory=Distilled)
    transferred: Transferred = field(default_factory=Transferred)


@dataclass(frozen=True)
class Pack:
    """Decode a folder of pictures once into files that training maps: for sets that do not fit in memory.

    hardpair pack SOURCE TARGET packs every split of SOURCE, and --data TARGET then gives the same images, labels and
    order as --data SOURCE. Ctrl-C stops it, and the same command goes on. Files that cannot be used are listed in
    TARGET/quarantine.txt (more than 5 % of them stop it), images that are there twice, or in training and test, in
    TARGET/duplicates.txt. hardpair pack --check TARGET reads every byte again and says what is damaged; its exit code
    is 1 where something is.

    Args:
        folders: SOURCE, a folder of pictures as for --data, and TARGET, which takes 3 x size x size bytes per image:
            ImageNet at 224 px has 200 GB.
        size: pixels of the squares; a packed set has this one size. 224 is what the recipes for large sets train with,
            and in much smaller squares most sets fit in memory.
        skip_broken: share of unreadable files that may be left out, such as 0.2; up to 5 % always may.
        check: look for damage in TARGET instead.
    """

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE TARGET")]
    size: int = 224
    skip_broken: float = 0.0
    check: bool = False
