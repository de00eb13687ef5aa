"""TwoNN on a GPU: 20,000 vectors of 768 coordinates, warm, and its answer on data that mislead.

    python -m benchmarks.twonn_gpu

The vectors are a Gaussian of dimension 10 in 768 coordinates, in float32. The time is the median of 20 runs after
three, from vectors on the GPU to the estimates on the host; beside it the same on the processor, and the uncentred
float32 way that others go, which an offset coordinate misleads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from theodolite.measures.twonn import twonn

N, DIM, DIMENSION, RUNS = 20_000, 768, 10, 20


def cases() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)
    basis = torch.randn(DIMENSION, DIM, generator=random)
    plain = torch.randn(N, DIMENSION, generator=random) @ basis
    offset = plain.clone()
    offset[:, 5] += 3000
    return {"plain": plain, "offset": offset, "repeated": torch.cat([plain[: N - N // 10], plain[: N // 10]])}


def milliseconds(call: Callable[[], object]) -> float:
    for _ in range(3):
        call()
    spent = []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        spent.append(1e3 * (time.perf_counter() - start))
    return median(spent)


def uncentred(x: Tensor) -> float:
    """The fit of keep-90 on float32 distances from norms and products as they come."""
    found = torch.cat([torch.cdist(part, x).topk(3, largest=False).values[:, 1:] for part in x.split(4096)])
    log_mu = (found[:, 1] / found[:, 0]).log().sort().values
    kept = log_mu[: 9 * len(log_mu) // 10]
    y = -torch.log1p(-torch.arange(1, len(kept) + 1, device=x.device) / len(log_mu))
    return float((kept @ y) / (kept @ kept))


def run() -> dict[str, object]:
    if not torch.cuda.is_available():
        return {"skipped": "needs an NVIDIA GPU"}
    outcome: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, x in cases().items():
        there = x.cuda()
        start = time.perf_counter()
        here = twonn(x)
        seconds = time.perf_counter() - start
        outcome[name] = {
            "gpu_ms": round(milliseconds(lambda there=there: twonn(there)), 2),
            "cpu_s": round(seconds, 2),
            "gpu": twonn(there).keep90,
            "cpu": here.keep90,
            "duplicates": here.duplicates,
            "uncentred_ms": round(milliseconds(lambda there=there: uncentred(there)), 2),
            "uncentred": uncentred(there),
        }
    return outcome


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
