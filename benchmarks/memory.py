"""Memory against corpus size: bytes per token once all units are known, and the memory for making tables.

    python -m benchmarks.memory

The same documents are folded four times in a separate process. The first pass meets all units; from then on memory
should not grow. The slope of memory on tokens is compared with keeping every hidden state, as scripts do that
store states first; it is negative if memory fell. Then the tables are made, and the peak of the additional memory
is compared with the size of the fold's state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import peers
from benchmarks.results import Row
from benchmarks.runner import run_from_command_line
from benchmarks.workload import Workload, load_workload
from theodolite.engines.local import FoldStep, fold_shards
from theodolite.state.state import State
from theodolite.statistics.cells import POPULATIONS
from theodolite.tables.tables import make_tables

PASSES = 4
PEAK, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def run(quick: bool = False, limit: int = 300, apart: int = 1) -> dict[str, Any]:
    """Measure in a separate process, in which no memory was freed before; with `quick`, in this process."""
    if quick or not apart:
        return measure_memory(quick, limit)
    command = [sys.executable, "-m", "benchmarks.memory", "--apart", "0", "--limit", str(limit)]
    path = peers.ROOT / "build" / "memory.json"
    done = subprocess.run(
        [*command, "--json", str(path)], cwd=peers.ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise peers.MissingError(peers.last_line(done.stderr))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name != "machine"}


def measure_memory(quick: bool, limit: int) -> dict[str, Any]:
    """Fold the documents several times and read the memory after every batch; then make the tables."""
    of = load_workload(quick, limit=limit)
    state = State(of.folds(), of.source.units)
    tokens, held, passes = [0], [resident_memory()], []
    process = psutil.Process(os.getpid())

    def on_step(step: FoldStep) -> None:
        tokens.append(tokens[-1] + step.positions)
        held.append(process.memory_info().rss)

    for number in range(PASSES):
        again = [(number * len(of.documents) + place, text) for place, (_, text) in enumerate(of.documents)]
        fold_shards(of.source, state.folds, [(number, again)], on_step=on_step)
        passes.append(len(tokens))
    known = slice(passes[0], None)
    slope = float(np.polyfit(tokens[known], held[known], 1)[0])
    keeping = sum(4 * layer.dim for layer in of.source.layers)
    units = len(next(iter(state.folds.values())).moments.population((0, 1, 2, 3)).codes)
    kept = sum(tensor.nbytes for fold in state.folds.values() for tensor in fold.state().values())
    more = table_memory(of, state)
    return {
        "rows": [
            Row(
                "memory per token over storing its states, units known",
                slope / keeping,
                0.05,
                f"{slope:,.0f} bytes",
                f"{keeping:,} bytes",
            ).to_dict(),
            Row(
                "memory for making the tables over the size of the sums",
                more / kept,
                1.0,
                f"{more / 1e6:,.0f} MB",
                f"{kept / 1e6:,.0f} MB, {units:,} units",
            ).to_dict(),
        ],
        "tokens": tokens[-1],
        "units": units,
        "first_pass_MB": (held[passes[0] - 1] - held[0]) / 1e6,
        "later_passes_MB": (held[-1] - held[passes[0] - 1]) / 1e6,
        "peak_MB": peak_memory() / 1e6,
    }


def table_memory(of: Workload, state: State) -> int:
    """Return the peak of the additional memory of make_tables, in bytes."""
    try:
        RESET.write_text("5", encoding="utf-8")  # Linux: resets the peak to the current memory
    except OSError as error:
        raise peers.MissingError(f"the peak memory cannot be reset on this machine: {error}") from error
    before = resident_memory()
    make_tables(state, of.source.layers, tuple(POPULATIONS))
    return peak_memory() - before


def resident_memory() -> int:
    """Return the current memory of this process, in bytes."""
    return int(psutil.Process(os.getpid()).memory_info().rss)


def peak_memory() -> int:
    """Return the peak memory of this process, in bytes."""
    line = next(line for line in PEAK.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    run_from_command_line(run, __doc__, limit=300, apart=1)
