"""The environment of a run: versions of the libraries, how much memory a run may use, and signals that stop it."""

from __future__ import annotations

import platform
import signal
import sys
from functools import cache

MEMORY_SHARE = 0.8
"""Share of the free memory that a run may use, unless --memory is given."""
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that ask a run to save and stop: Ctrl-C, a scheduler, a closed terminal. Windows has no SIGHUP."""


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
