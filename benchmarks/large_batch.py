"""Memory and time of HNPM's loss for a batch of tens of thousands, forward and backward on one process.

    python benchmarks/large_batch.py                             # 65,536 outputs of 256 dimensions; some minutes
    python benchmarks/large_batch.py --rows 8192 --rows 16384    # how both grow

Goal: within 4 GB at 65,536. In one go the matrices of distances alone would need 17 GB each. The loss compares in parts
(losses/large_batch.py); that parts and whole agree is shown here at a size where both fit, and tested in tests/losses.
Each line is a process of its own, since memory that a process once had it seldom gives back.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

FORMS = {"Eq. 4": {}, "soft": {"softness": 0.2}}
DIMENSIONS = 256


def peak() -> float:
    """Largest resident memory so far, in MB. (What getrusage says would begin with that of the parent process.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(form: str, rows: int) -> dict[str, float]:
    """In this process: seconds, and by how much the peak rose above that of a tiny batch."""
    import torch

    from hardpair.losses import hnpm_loss

    def both_ways(count: int) -> None:
        u, u_prime = torch.randn(2, count, DIMENSIONS, generator=torch.Generator().manual_seed(0))
        u.requires_grad_()
        hnpm_loss(u, u_prime, threshold=1.9, norm="l2", **FORMS[form])["loss"].backward()

    both_ways(64)  # libraries load before we look
    before, began = peak(), time.perf_counter()
    both_ways(rows)
    return {"seconds": time.perf_counter() - began, "rise": peak() - before}


def difference(form: str, rows: int = 3000) -> float:
    """The largest difference of a gradient, as a share of the largest, between parts and whole."""
    import torch

    from hardpair.losses import hnpm_loss, large_batch

    def gradient(*, in_parts: bool) -> torch.Tensor:
        large_batch.FROM_PAIRS, large_batch.TILE_PAIRS = (0, 2**20) if in_parts else (2**62, 2**62)
        u, u_prime = torch.randn(2, rows, DIMENSIONS, generator=torch.Generator().manual_seed(0))
        u.requires_grad_()
        hnpm_loss(u, u_prime, threshold=1.9, norm="l2", **FORMS[form])["loss"].backward()
        assert u.grad is not None
        return u.grad

    whole, parts = gradient(in_parts=False), gradient(in_parts=True)
    return float((whole - parts).abs().max() / whole.abs().max())


def main() -> None:
    """Print one line per form and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, action="append", help="outputs in the batch (65536)")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], int(options.measure[1]))))
        return
    from record import record

    kept = []
    for form in FORMS:
        print(f"{form}: gradients in parts differ from the whole by {difference(form):.1e} of the largest", flush=True)
        for rows in options.rows or [65_536]:
            command = [sys.executable, __file__, "--measure", form, str(rows)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(f"  {rows:,} rows: {found['seconds']:.1f} s, memory rises by {found['rise']:.0f} MB", flush=True)
            kept.append({"form": form, "rows": rows, **found})
    record("large_batch", {"dimensions": DIMENSIONS, "found": kept})


if __name__ == "__main__":
    main()
