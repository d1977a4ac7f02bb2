"""A torchvision ResNet-18 trained with labels by torchvision's own code, as a file to start from: --init FILE.

    python scripts/train_torchvision.py PHOTOS OUT.pth --epochs 8

PHOTOS has train/ with a folder per class. Nothing of hardpair is used, so that the file is what others bring.
"""

import argparse
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main() -> None:
    """Train, and write the state dict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    augment = [v2.ToImage(), v2.RandomResizedCrop(options.size, (0.3, 1), antialias=True), v2.RandomHorizontalFlip()]
    images = ImageFolder(
        options.photos / "train", v2.Compose([*augment, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    )
    network = resnet18(num_classes=len(images.classes)).to(memory_format=torch.channels_last)
    batches = DataLoader(images, 64, shuffle=True, drop_last=True)
    steps = options.epochs * len(batches)
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.05, total_steps=steps)
    for epoch in range(options.epochs):
        right = 0
        for pixels, labels in batches:
            logits = network(pixels.to(memory_format=torch.channels_last))
            loss = torch.nn.functional.cross_entropy(logits, labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            right += int((logits.argmax(1) == labels).sum())
        print(f"epoch {epoch + 1}: accuracy in training {right / (64 * len(batches)):.1%}", flush=True)
    torch.save(network.state_dict(), options.out)


if __name__ == "__main__":
    main()
