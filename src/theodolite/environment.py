"""The environment of a run: versions of the libraries, how much memory a run may use, and signals that stop it."""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

MEMORY_SHARE = 0.8
"""Share of the free memory that a run may use, unless --memory is given."""
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that ask a run to save and stop: Ctrl-C, a scheduler, a closed terminal. Windows has no SIGHUP."""


def available_memory() -> int:
    """Return the bytes that this process may still use: what is free on the machine or in its container.

    What is free on the machine does not include the limit of a container or of a job of a cluster (a cgroup).
    """
    import psutil

    return min([int(psutil.virtual_memory().available), *_free_in_cgroups()])


CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
NAMES = ("memory.max", "memory.current", "inactive_file")
NAMES_BEFORE = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
"""Files with limit and use, and the line of memory.stat with what can be freed: versions 2 and 1 of cgroups."""


def _free_in_cgroups() -> Iterator[int]:
    """Yield what is free in the cgroup of this process and in all that contain it, if they have a limit. Linux."""
    try:
        lines = OWN_CGROUP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if kinds and "memory" not in kinds.split(","):
            continue
        top, names = (CGROUPS / "memory", NAMES_BEFORE) if kinds else (CGROUPS, NAMES)
        own = top / path.lstrip("/")
        for folder in (own, *own.parents):
            with suppress(OSError, ValueError, KeyError):  # no such folder in a container, or "max": no limit
                stat = dict(line.split() for line in (folder / "memory.stat").read_text("utf-8").splitlines())
                limit, used = (int((folder / name).read_text("utf-8")) for name in names[:2])
                yield max(limit - used + int(stat[names[2]]), 0)
            if folder == top:
                break


def versions() -> dict[str, str]:
    """Return the versions of everything that the numbers depend on."""
    packages = ("theodolite", "torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow")
    return {"python": sys.version.split()[0], "platform": platform.platform()} | {p: _version(p) for p in packages}


@cache
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:  # a source tree that was not installed must not lose a finished fold
        return "unknown"
