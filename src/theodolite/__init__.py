"""Theodolite surveys embedding spaces: one pass over a corpus, every layer, exact numbers in bounded memory.

>>> import theodolite
>>> survey = theodolite.survey("minilm-l6", corpus=["The cat sat.", "A dog ran."])  # doctest: +SKIP
>>> survey.layers  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite import measures
    from theodolite.api.check import check
    from theodolite.api.figures import compare, exhibit
    from theodolite.api.lists import list_corpora, list_exhibits, list_models
    from theodolite.api.loading import load
    from theodolite.api.loading import load as open  # noqa: A004
    from theodolite.api.report import report
    from theodolite.api.store import store
    from theodolite.errors import TheodoliteError
    from theodolite.reproduction.reproduce import reproduce
    from theodolite.studies.anisotropy.batches import make_batches as batches
    from theodolite.studies.block.block import block
    from theodolite.studies.bridge.bridge import bridge
    from theodolite.studies.bridge.merging import merge_bridges
    from theodolite.studies.cautions import cautions
    from theodolite.studies.clouds.clouds import clouds
    from theodolite.studies.contrast.contrast import contrast
    from theodolite.studies.groups.groups import groups
    from theodolite.studies.norm_variance.token_sets import make_token_sets as sets
    from theodolite.studies.probe.probe import probe
    from theodolite.studies.sample_export.export import export
    from theodolite.studies.series.dynamics import dynamics
    from theodolite.studies.trace.trace import trace
    from theodolite.studies.weights.weights import weights
    from theodolite.studies.what_if import what_if
    from theodolite.surveys.api import survey
    from theodolite.surveys.merge import merge
    from theodolite.surveys.survey import Survey
    from theodolite.surveys.vectors import measure
    from theodolite.surveys.watch import watch

__all__ = [
    "Survey",
    "TheodoliteError",
    "batches",
    "block",
    "bridge",
    "cautions",
    "check",
    "clouds",
    "compare",
    "contrast",
    "dynamics",
    "exhibit",
    "export",
    "groups",
    "list_corpora",
    "list_exhibits",
    "list_models",
    "load",
    "measure",
    "measures",
    "merge",
    "merge_bridges",
    "open",
    "probe",
    "report",
    "reproduce",
    "sets",
    "store",
    "survey",
    "trace",
    "watch",
    "weights",
    "what_if",
]

# Resolved when first asked for, so that importing the package loads nothing heavy.
_HOMES = {
    "Survey": ("theodolite.surveys.survey", "Survey"),
    "TheodoliteError": ("theodolite.errors", "TheodoliteError"),
    "batches": ("theodolite.studies.anisotropy.batches", "make_batches"),
    "block": ("theodolite.studies.block.block", "block"),
    "bridge": ("theodolite.studies.bridge.bridge", "bridge"),
    "cautions": ("theodolite.studies.cautions", "cautions"),
    "check": ("theodolite.api.check", "check"),
    "clouds": ("theodolite.studies.clouds.clouds", "clouds"),
    "compare": ("theodolite.api.figures", "compare"),
    "contrast": ("theodolite.studies.contrast.contrast", "contrast"),
    "dynamics": ("theodolite.studies.series.dynamics", "dynamics"),
    "exhibit": ("theodolite.api.figures", "exhibit"),
    "export": ("theodolite.studies.sample_export.export", "export"),
    "groups": ("theodolite.studies.groups.groups", "groups"),
    "list_corpora": ("theodolite.api.lists", "list_corpora"),
    "list_exhibits": ("theodolite.api.lists", "list_exhibits"),
    "list_models": ("theodolite.api.lists", "list_models"),
    "load": ("theodolite.api.loading", "load"),
    "measure": ("theodolite.surveys.vectors", "measure"),
    "measures": ("theodolite.measures", ""),
    "merge": ("theodolite.surveys.merge", "merge"),
    "merge_bridges": ("theodolite.studies.bridge.merging", "merge_bridges"),
    "open": ("theodolite.api.loading", "load"),
    "probe": ("theodolite.studies.probe.probe", "probe"),
    "report": ("theodolite.report", ""),
    "reproduce": ("theodolite.reproduction.reproduce", "reproduce"),
    "sets": ("theodolite.studies.norm_variance.token_sets", "make_token_sets"),
    "store": ("theodolite.api.store", "store"),
    "survey": ("theodolite.surveys.api", "survey"),
    "trace": ("theodolite.studies.trace.trace", "trace"),
    "watch": ("theodolite.surveys.watch", "watch"),
    "weights": ("theodolite.studies.weights.weights", "weights"),
    "what_if": ("theodolite.studies.what_if", "what_if"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'theodolite' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
