"""Which strided 1x1 convolutions make torch write past its memory on this processor (models/narrow_strides.py).

    python benchmarks/narrow_strides.py        # about two minutes

Each cell is a process of its own: three gradients of one convolution, stride 2, channels last, 16 images, while the C
library checks every block of memory. A cell names the signal that ended it. Once all are "ok" with the lowest torch
that we allow, the guard can go.
"""

import os
import signal
import subprocess
import sys

from record import record

from hardpair.doctor.training_checks import CHECKED_MEMORY

CHANNELS, SIZES = (4, 8, 15, 16), (32, 64, 96)
SETS = ("SSE41", "AVX2", "DEFAULT")  # of oneDNN; the last is all that the processor has
PROGRAM = """
import sys, torch
channels, size = map(int, sys.argv[1:])
torch.set_num_threads(1)
conv = torch.nn.Conv2d(channels, 2 * channels, 1, stride=2, bias=False).to(memory_format=torch.channels_last)
for _ in range(3):
    images = torch.randn(16, channels, size, size).to(memory_format=torch.channels_last).requires_grad_()
    conv(images).square().mean().backward()
    del images
"""


def end_of(instructions: str, channels: int, size: int) -> str:
    """How the process ended."""
    words = [sys.executable, "-c", PROGRAM, str(channels), str(size)]
    environment = {**os.environ, **CHECKED_MEMORY, "ONEDNN_MAX_CPU_ISA": instructions}
    code = subprocess.run(words, env=environment, stderr=subprocess.DEVNULL, check=False).returncode
    return "ok" if code == 0 else signal.Signals(-code).name if code < 0 else f"exit {code}"


def main() -> None:
    """Print one line per instruction set and size."""
    found = []
    for instructions in SETS:
        for size in SIZES:
            ends = {str(channels): end_of(instructions, channels, size) for channels in CHANNELS}
            print(f"{instructions:8} {size:3} px  " + "  ".join(f"{c}: {end}" for c, end in ends.items()), flush=True)
            found.append({"instructions": instructions, "size": size, "channels": ends})
    record("narrow_strides", {"found": found})


if __name__ == "__main__":
    main()
