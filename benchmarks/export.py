"""How near are exports to the encoder they were made of, form by form, and what does an export cost?

    python benchmarks/export.py [--run RUN] [--photos FOLDER]

Each encoder is exported to every form that has it. The difference is the one that the export itself checks, in a fresh
process without hardpair: the largest of all outputs of 64 pictures at batches of 1, 7 and 64, in units of the outputs'
root mean square. Then one weight tensor is altered by a thousandth on the way, which must be refused. For photos also
the cosine between features by our own preprocessing and by the nearest of timm's transforms. RUN adds a trained
encoder; the others have random weights, with statistics of batch norm that are not those of the start.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import timm
import torch
from PIL import Image
from record import record
from torch import nn

import hardpair as hp
from hardpair.data.layout import list_whole
from hardpair.embeddings.embedder import open_embedder
from hardpair.exporters import material
from hardpair.exporters.export import FORMS
from hardpair.models import Encoder, build_encoder, save_encoder

ENCODERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ResNet-10 × .25, stem for small images, 32 px": ("resnet10", 32, {"width": 0.25, "small_images": True}),
    "ResNet-50, 224 px": ("resnet50", 224, {}),
    "ViT-Tiny/16, 224 px": ("vit_tiny_patch16_224", 224, {}),
    "ResNet-50 with selective kernels, 224 px": ("resnet50", 224, {"sk": True}),
}
PHOTOS = 64


def main() -> None:
    """Print one line per encoder and form."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=Path, nargs="*", default=[])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        runs = {f"trained: {run.name}": run for run in options.run}
        for place, (what, (name, size, settings)) in enumerate(ENCODERS.items()):
            runs[what] = made_run(Path(scratch, f"run-{place}"), name, size, settings, options.photos)
        for place, (what, run) in enumerate(runs.items()):
            found[what] = forms_of(what, run, Path(scratch, f"out-{place}"), options.threads)
            if options.photos:
                found[what]["nearest_transform"] = nearest_transform(run, options.photos)
                print(f"{what}: cosine with the nearest transform {found[what]['nearest_transform']}", flush=True)
    record("export", found)


def made_run(folder: Path, name: str, size: int, settings: dict[str, Any], photos: Path | None) -> Path:
    """An untrained encoder as a run; its statistics are moved, so that a layer left out would be seen."""
    torch.manual_seed(0)
    encoder: Encoder = build_encoder(name, **settings)
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.normal_(module.bias, std=0.1)
    folder.mkdir()
    save_encoder(encoder.eval(), folder, step=0)
    data = str(photos.absolute()) if photos else "sample"
    recipe = {"name": "none", "method": "none", "data": data, "image_size": size, "view_size": 1.0}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder


def forms_of(what: str, run: Path, out: Path, threads: int) -> dict[str, Any]:
    """Differences, seconds and sizes by form; and whether an altered layer is refused."""
    found: dict[str, Any] = {}
    out.mkdir()
    for form in FORMS:
        began = time.perf_counter()
        try:
            made = hp.export(run, to=form, out=out / form, threads=threads)  # type: ignore[arg-type]
        except hp.UserError as refusal:
            found[form] = {"refused": str(refusal)}
            continue
        seconds = time.perf_counter() - began
        found[form] = {
            "difference": made.checked.difference,
            "by_batch": made.checked.by_batch,
            "pictures": made.checked.pictures,
            "seconds": seconds,
            "seconds_of_check": made.checked.seconds,
            "bytes": sum(file.stat().st_size for file in made.folder.iterdir() if file.is_file()),
        }
        print(f"{what}: {form}: {made.checked.difference:.1e}, {seconds:.0f} s", flush=True)
    found["altered"] = altered(run, out / "altered", threads)
    print(f"{what}: {found['altered']}", flush=True)
    return found


def altered(run: Path, out: Path, threads: int) -> str:
    """What is said when a convolution, or a linear layer, in the middle is a thousandth larger than it should be."""
    keep, form = material.save_file, "huggingface"

    def save_altered(tensors: dict[str, torch.Tensor], file: Path) -> None:
        large = [name for name, tensor in tensors.items() if tensor.ndim > 1]
        middle = large[len(large) // 2]
        keep(tensors | {middle: tensors[middle] * 1.001}, file)

    material.save_file = save_altered
    try:
        hp.export(run, to=form, out=out, threads=threads)
    except hp.UserError as refusal:
        return "nothing written" if out.exists() else str(refusal)
    finally:
        material.save_file = keep
    raise SystemExit(f"{run}: an altered export was not noticed")


@torch.no_grad()
def nearest_transform(run: Path, photos: Path) -> dict[str, float]:
    """Cosine of features by our preprocessing and by timm's transform of the same size: the mean and the least."""
    embedder = open_embedder(run, device=torch.device("cpu"))
    listing = list_whole(photos)[1][0][1]
    names = listing.names[:: max(1, len(listing.names) // PHOTOS)][:PHOTOS]
    ours = embedder.vectors(torch.cat([embedder.read(listing.root / name) for name in names]))
    facts = material.Material(embedder)
    transform = timm.data.create_transform(
        (3, facts.size, facts.size), interpolation="bicubic", crop_pct=facts.crop, mean=facts.mean, std=facts.std
    )
    pictures = [Image.open(listing.root / name).convert("RGB") for name in names]
    theirs = facts.trunk(torch.stack([transform(picture) for picture in pictures]))
    cosines = torch.nn.functional.cosine_similarity(ours, theirs)
    return {"mean": float(cosines.mean()), "least": float(cosines.min())}


if __name__ == "__main__":
    main()
