"""The machine that a benchmark ran on, as far as a reader of its numbers needs to know it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil
import torch


def machine() -> dict[str, Any]:
    """Return cores, processor, memory, accelerator, versions, and how busy the machine was with other work."""
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


def in_words(found: dict[str, Any]) -> str:
    """Return one line; a load of more than a tenth a core beside this run is told."""
    busy = ", loaded" if found["load_average"] > 0.1 * found["cores"] else ""
    threads = f"{found['threads']} thread{'' if found['threads'] == 1 else 's'}"
    gpu = f", {found['gpu']}" if found["gpu"] else ""
    return f"{found['cores']} cores of {found['cpu']}{gpu}, PyTorch {found['torch']}, {threads}{busy}"


def _cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
