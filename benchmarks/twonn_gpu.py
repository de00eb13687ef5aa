"""TwoNN on a GPU: time for 20,000 vectors of 768 coordinates, and the estimates on difficult data.

    python -m benchmarks.twonn_gpu

The vectors are float32 from a Gaussian of dimension 10 in 768 coordinates. The time is the median of 20 runs after
three warm-up runs, from vectors on the GPU to estimates on the CPU. It is compared with the CPU, and with
uncentred float32 distances as other tools use them, which fail with an offset coordinate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from theodolite.measures.intrinsic_dimension import twonn

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
    """Return the keep-90 fit from float32 distances of uncentred vectors."""
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
        on_gpu = x.cuda()
        start = time.perf_counter()
        on_cpu = twonn(x)
        seconds = time.perf_counter() - start
        outcome[name] = {
            "gpu_ms": round(milliseconds(lambda on_gpu=on_gpu: twonn(on_gpu)), 2),
            "cpu_s": round(seconds, 2),
            "gpu": twonn(on_gpu).keep90,
            "cpu": on_cpu.keep90,
            "duplicates": on_cpu.duplicates,
            "uncentred_ms": round(milliseconds(lambda on_gpu=on_gpu: uncentred(on_gpu)), 2),
            "uncentred": uncentred(on_gpu),
        }
    return outcome


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
