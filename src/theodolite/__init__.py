"""Theodolite surveys embedding spaces: one pass over a corpus, every layer, exact numbers in bounded memory.

>>> import theodolite
>>> survey = theodolite.survey("minilm-l6", corpus=["The cat sat.", "A dog ran."])  # doctest: +SKIP
>>> survey.layers  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.errors import TheodoliteError
    from theodolite.studies.probe.laboratory import probe
    from theodolite.studies.weights.weigh import weights
    from theodolite.surveys.folder import open_survey as open  # noqa: A004
    from theodolite.surveys.merge import merge
    from theodolite.surveys.models import survey
    from theodolite.surveys.survey import Survey
    from theodolite.surveys.vectors import measure
    from theodolite.surveys.watch import watch

__all__ = ["Survey", "TheodoliteError", "measure", "merge", "open", "probe", "survey", "watch", "weights"]

# Resolved when first asked for, so that importing the package loads nothing heavy.
_HOMES = {
    "Survey": ("theodolite.surveys.survey", "Survey"),
    "TheodoliteError": ("theodolite.errors", "TheodoliteError"),
    "measure": ("theodolite.surveys.vectors", "measure"),
    "merge": ("theodolite.surveys.merge", "merge"),
    "open": ("theodolite.surveys.folder", "open_survey"),
    "probe": ("theodolite.studies.probe.laboratory", "probe"),
    "survey": ("theodolite.surveys.models", "survey"),
    "watch": ("theodolite.surveys.watch", "watch"),
    "weights": ("theodolite.studies.weights.weigh", "weights"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'theodolite' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
