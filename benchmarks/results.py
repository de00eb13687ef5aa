"""The results of benchmarks: rows of a table of ratios, and the machine that they were measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import psutil
import torch


@dataclass(frozen=True)
class Row:
    """One comparison. A ratio below 1 means that ours takes less. None: not measured, for the reason `why`."""

    what: str
    ratio: float | None
    bound: float | None = None
    ours: str = ""
    theirs: str = ""
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row for JSON; a ratio that is not finite is None."""
        finite = self.ratio is not None and isfinite(self.ratio)
        return {**asdict(self), "ratio": self.ratio if finite else None}


def format_table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows as text: what, ratio, bound, ours, theirs."""
    cells = [("what", "ratio", "bound", "ours", "theirs")]
    for row in rows:
        value = "-" if row["ratio"] is None else format_number(row["ratio"])
        bound = "" if row["bound"] is None else f"{row['bound']:g}"
        theirs = row["why"] if row["ratio"] is None and row["why"] else row["theirs"]
        cells.append((row["what"], value, bound, row["ours"], theirs))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = []
    for what, *numbers, ours, theirs in cells:
        right = "  ".join(number.rjust(width) for number, width in zip(numbers, widths[1:3], strict=True))
        lines.append(f"{what.ljust(widths[0])}  {right}  {ours.ljust(widths[3])}  {theirs}".rstrip())
    return "\n".join(lines)


def format_number(number: float) -> str:
    """Return a number with three decimals, or two significant digits if it is very small or large."""
    return f"{number:.3f}" if 0.01 <= abs(number) < 1000 else f"{number:.2g}"


def format_seconds(spent: float) -> str:
    """Return a time in seconds or milliseconds.

    >>> format_seconds(0.0123), format_seconds(4.0)
    ('12.3 ms', '4.00 s')
    """
    return f"{spent:.2f} s" if spent >= 1 else f"{1e3 * spent:.3g} ms"


def get_machine() -> dict[str, Any]:
    """Return cores, processor, memory, GPU, versions, and the load of the machine."""
    return {
        "platform": platform.platform(),
        "cores": _cores(),
        "cpu": _cpu(),
        "memory_GB": round(psutil.virtual_memory().total / 1e9, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_average": round(psutil.getloadavg()[0], 2),
    }


def describe_machine(found: dict[str, Any]) -> str:
    """Return one line about the machine. It says "loaded" if the load exceeds a tenth of the cores."""
    busy = ", loaded" if found["load_average"] > 0.1 * found["cores"] else ""
    threads = f"{found['threads']} thread{'' if found['threads'] == 1 else 's'}"
    gpu = f", {found['gpu']}" if found["gpu"] else ""
    return f"{found['cores']} cores of {found['cpu']}{gpu}, PyTorch {found['torch']}, {threads}{busy}"


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
