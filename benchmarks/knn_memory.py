"""Extra memory of knn at the size of CIFAR-10: 50,000 training and 10,000 test features of 512 dimensions.

    python benchmarks/knn_memory.py

Goal: the peak rises by at most 1 GB. (The values do not matter to memory, so they are random.)
"""

import resource
import time

import torch
from record import record

from hardpair.evaluate import knn


def peak() -> float:
    """Largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the rise of the peak."""
    torch.manual_seed(0)
    train = torch.randn(50_000, 512), torch.randint(0, 10, (50_000,))
    test = torch.randn(10_000, 512), torch.randint(0, 10, (10_000,))
    knn((train[0][:100], train[1][:100]), (test[0][:10], test[1][:10]))  # libraries load before we look
    before, began = peak(), time.perf_counter()
    knn(train, test)
    seconds, rise = time.perf_counter() - began, peak() - before
    print(f"knn of 10,000 against 50,000 features of 512 dimensions: {seconds:.1f} s, the peak rises by {rise:.0f} MB")
    record("knn_memory", {"seconds": seconds, "rise_megabytes": rise})


if __name__ == "__main__":
    main()
