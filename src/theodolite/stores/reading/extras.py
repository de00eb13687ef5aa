"""Libraries that only some stores need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from theodolite.errors import TheodoliteError


def require(module: str, package: str) -> Any:
    """Import a library of the extra `stores`, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise TheodoliteError(f"it requires {package}: pip install 'theodolite[stores]'.") from error
