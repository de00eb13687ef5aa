"""Every kernel compiles for the GPUs that are in use, also where there is none.

The interpreter accepts what the compiler rejects. Requires Triton, as installed by `make test-kernels`.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from tempfile import NamedTemporaryFile
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.hard_cases import hard

from theodolite.measures import rank_one
from theodolite.measures.cuda import lanczos, pairs, unit_reductions
from theodolite.optional_triton import INTERPRETED, triton
from theodolite.statistics.cuda import gram_kernels, measure_kernels, unit_kernels
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.cuda.fold import GpuFold

pytestmark = [
    pytest.mark.skipif(triton is None or INTERPRETED, reason="requires Triton, not interpreted"),
]
STACK = 256
"""Bytes that a thread may keep in memory for lack of registers. Too much loaded at once needs kilobytes."""
FAR = "_remainder_kernel"
UNUSED = {torch.float16: {FAR}, torch.float32: {"_gram_kernel", FAR}}
"""Only bfloat16 has remainders of far coordinates, and float32 is multiplied by the library."""


class Target:
    """A driver of Triton that names a GPU and launches nothing."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability  # compiled kernels are kept by device

    def get_current_stream(self, device: int) -> int:
        return 0


def stack_bytes(binary: bytes) -> int:
    """Return the memory that each thread of a kernel needs for what does not fit into its registers."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        used = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"STACK:(\d+)", used)[0])


@pytest.fixture(params=[80, 90, 100], ids=["A100", "H100", "B200"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Compile kernels instead of launching them; the names of those that were compiled."""
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    names: set[str] = set()

    def compile_only(kernel: Any, grid: Any) -> Any:
        def compile_with(*args: Any, **options: Any) -> None:
            made = kernel.run(*args, grid=grid, warmup=True, **options)
            assert stack_bytes(made.asm["cubin"]) <= STACK, kernel.__name__
            if "STAGES" in options:
                assert "cp.async" in made.asm["ptx"], f"{kernel.__name__} does not prefetch rows"
            names.add(kernel.__name__)

        return compile_with

    monkeypatch.setattr(JITFunction, "__getitem__", compile_only)
    monkeypatch.setattr(driver, "_active", Target(request.param))
    monkeypatch.setattr(torch, "empty", torch.zeros)  # what the kernels would have written
    return names


def kernels_of(*modules: ModuleType) -> set[str]:
    return {
        name for module in modules for name, value in vars(module).items() if isinstance(value, triton.JITFunction)
    }


@pytest.mark.parametrize(
    ("dtype", "dim", "far"),
    [
        (torch.float32, 768, "few"),
        (torch.float16, 768, "few"),
        *((torch.bfloat16, dim, far) for dim in (768, 4096) for far in ("few", "all")),
    ],
)
def test_kernels_of_the_fold(compiled: set[str], dtype: torch.dtype, dim: int, far: str) -> None:
    offset = 0.0 if dtype == torch.float16 else 300.0
    case = hard(dtype, rows=dim + 200, dim=dim, offset=offset)  # products need more rows than columns
    rows = (case.states.double() - case.frame.centre.double()).norm(dim=1)
    spread = float(rows.median()) if far == "few" else 0.0
    frame = replace(case.frame, spread=spread, frequent=tuple(case.unit[:3].tolist()))
    fold = GpuFold(frame, GpuContext("cpu", use_kernels=True))
    (batch,) = case.batches(len(case.states))
    fold.hold(batch).add(torch.zeros(len(batch.places), dtype=torch.bool))
    fold.update(batch)
    fold.context.finish()
    assert compiled == kernels_of(gram_kernels, measure_kernels, unit_kernels) - UNUSED.get(dtype, set())


@pytest.mark.parametrize("dim", [768, 4096])
def test_kernels_of_the_measures(compiled: set[str], dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_one, "can_launch", lambda tensor: True)
    vectors, n, some = torch.zeros(20, dim).double(), torch.arange(1, 21), torch.arange(4)
    unit_reductions.squared_distances(n, vectors, vectors[:3], None)
    unit_reductions.squared_distances(n[some], vectors, vectors[:4], some)
    unit_reductions.spread_of_means(n, n / 210.0, vectors, vectors[0])
    lanczos.extend(vectors, vectors[0].clone(), vectors[:2].clone(), 3)
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        pairs.squared_distances(vectors.to(dtype), torch.ones(()).double(), some, some + 5)
    poles, weights = torch.arange(dim).double(), torch.ones(dim).double()
    roots = rank_one.find_roots(poles, weights)
    rank_one._combine(poles, roots, weights)
    assert compiled == kernels_of(unit_reductions, lanczos, pairs, rank_one)
