"""Memory against corpus size: bytes a token once the units are known, and what reading the tables off takes.

    python -m benchmarks.memory

The same documents are folded four times in a process of its own. The first pass meets the units; from then on
memory should not grow, and its slope on tokens stands against keeping every state, as scripts do that store hidden
states first; it is below 0 where memory fell. Then the tables are read off, and the most that this adds stands
against what the fold keeps of all layers.
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
from benchmarks.alone import main
from benchmarks.row import Row
from benchmarks.subject import Subject, subject
from theodolite.engines.local import Folded, fold_shards
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.state import State
from theodolite.surveys.tables import make_tables

PASSES = 4
PEAK, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def run(quick: bool = False, limit: int = 300, apart: int = 1) -> dict[str, Any]:
    """Measure in a process of its own, where nothing else was freed before; the quick size stays in this one."""
    if quick or not apart:
        return measured(quick, limit)
    command = [sys.executable, "-m", "benchmarks.memory", "--apart", "0", "--limit", str(limit)]
    path = peers.ROOT / "build" / "memory.json"
    done = subprocess.run(
        [*command, "--json", str(path)], cwd=peers.ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise peers.MissingError(peers.last_line(done.stderr))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name != "machine"}


def measured(quick: bool, limit: int) -> dict[str, Any]:
    """Fold the documents again and again, watching memory after every batch; then read the tables off."""
    of = subject(quick, limit=limit)
    state = State(of.folds(), of.source.units)
    tokens, held, passes = [0], [resident()], []
    process = psutil.Process(os.getpid())

    def told(step: Folded) -> None:
        tokens.append(tokens[-1] + step.positions)
        held.append(process.memory_info().rss)

    for number in range(PASSES):
        again = [(number * len(of.documents) + place, text) for place, (_, text) in enumerate(of.documents)]
        fold_shards(of.source, state.folds, [(number, again)], told=told)
        passes.append(len(tokens))
    known = slice(passes[0], None)
    slope = float(np.polyfit(tokens[known], held[known], 1)[0])
    keeping = sum(4 * layer.dim for layer in of.source.layers)
    units = len(next(iter(state.folds.values())).moments.population((0, 1, 2, 3)).codes)
    kept = sum(tensor.nbytes for fold in state.folds.values() for tensor in fold.state().values())
    more = reading_off(of, state)
    return {
        "rows": [
            Row(
                "memory a token over keeping its states, units known",
                slope / keeping,
                0.05,
                f"{slope:,.0f} bytes",
                f"{keeping:,} bytes",
            ).told(),
            Row(
                "memory to read the tables off over what the fold keeps",
                more / kept,
                1.0,
                f"{more / 1e6:,.0f} MB",
                f"{kept / 1e6:,.0f} MB, {units:,} units",
            ).told(),
        ],
        "tokens": tokens[-1],
        "units": units,
        "first_pass_MB": (held[passes[0] - 1] - held[0]) / 1e6,
        "later_passes_MB": (held[-1] - held[passes[0] - 1]) / 1e6,
        "peak_MB": highest() / 1e6,
    }


def reading_off(of: Subject, state: State) -> int:
    """Return the bytes that make_tables adds at its highest."""
    try:
        RESET.write_text("5", encoding="utf-8")  # Linux: the highest is now what there is
    except OSError as error:
        raise peers.MissingError(f"peak memory cannot be set back here: {error}") from error
    before = resident()
    make_tables(state, of.source.layers, tuple(POPULATIONS))
    return highest() - before


def resident() -> int:
    """Return the memory of this process now, in bytes."""
    return int(psutil.Process(os.getpid()).memory_info().rss)


def highest() -> int:
    """Return the most memory that this process had, in bytes."""
    line = next(line for line in PEAK.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    main(run, __doc__, limit=300, apart=1)
