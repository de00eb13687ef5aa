"""The environment of a run: versions of the libraries, and how much memory a run may use."""

from __future__ import annotations

import platform
import sys

MEMORY_SHARE = 0.8
"""Share of the free memory that a run may use, unless --memory is given."""


def versions() -> dict[str, str]:
    """Return the versions of everything that the numbers depend on."""
    from importlib.metadata import version

    packages = ("theodolite", "torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow")
    return {"python": sys.version.split()[0], "platform": platform.platform()} | {p: version(p) for p in packages}
