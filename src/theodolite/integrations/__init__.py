"""Measure the geometry of a model while it trains, with the transformers Trainer or in any training loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.integrations.callback import GeometryCallback
    from theodolite.integrations.collapse import CollapseWarning, Thresholds
    from theodolite.integrations.probe import GeometryProbe

__all__ = ["CollapseWarning", "GeometryCallback", "GeometryProbe", "Thresholds"]

# Imported on first use, because the callback imports transformers.
_MODULES = {
    "CollapseWarning": "theodolite.integrations.collapse",
    "GeometryCallback": "theodolite.integrations.callback",
    "GeometryProbe": "theodolite.integrations.probe",
    "Thresholds": "theodolite.integrations.collapse",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'theodolite.integrations' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
