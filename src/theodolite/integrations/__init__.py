"""Measure the geometry of a model while it trains, with any trainer or in any training loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.integrations.alarms import Alarms, GeometryWarning
    from theodolite.integrations.callback import GeometryCallback
    from theodolite.integrations.collapse import CollapseWarning, Thresholds
    from theodolite.integrations.lightning import LightningGeometryCallback
    from theodolite.integrations.module_probe import ModuleProbe, SentenceProbe
    from theodolite.integrations.probe import GeometryProbe
    from theodolite.integrations.tracker import GeometryTracker

__all__ = [
    "Alarms",
    "CollapseWarning",
    "GeometryCallback",
    "GeometryProbe",
    "GeometryTracker",
    "GeometryWarning",
    "LightningGeometryCallback",
    "ModuleProbe",
    "SentenceProbe",
    "Thresholds",
]

# Imported on first use, because they import transformers, Lightning or accelerate.
_MODULES = {
    "Alarms": "alarms",
    "CollapseWarning": "collapse",
    "GeometryCallback": "callback",
    "GeometryProbe": "probe",
    "GeometryTracker": "tracker",
    "GeometryWarning": "alarms",
    "LightningGeometryCallback": "lightning",
    "ModuleProbe": "module_probe",
    "SentenceProbe": "module_probe",
    "Thresholds": "collapse",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'theodolite.integrations' has no attribute {name!r}")
    return getattr(import_module(f"theodolite.integrations.{_MODULES[name]}"), name)
