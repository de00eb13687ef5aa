"""The finished tables of one survey: all that the report may know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.report.shares import with_shares

NEEDED = ("layer", "population")


@dataclass(frozen=True, eq=False)
class Tables:
    """One survey, read: its name, `survey.json` as a dict, and its tables.

    `layers` has a row per layer and population, `tokens` a row per layer, population and unit, `units` a row per
    unit. Any key of `facts`, any number and any column but `layer` and `population` may be missing. `scales` and
    `spectra` are as a survey leaves them, `projections` as theodolite.studies.projections does; each may be empty.
    """

    name: str
    facts: dict[str, Any]
    layers: pd.DataFrame
    tokens: pd.DataFrame
    units: pd.DataFrame
    scales: pd.DataFrame = field(default_factory=pd.DataFrame)
    spectra: pd.DataFrame = field(default_factory=pd.DataFrame)
    projections: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, source: Mapping[str, Any] | object) -> Tables:
        """Take tables from `Tables`, a mapping with the same keys or an object with the same attributes."""
        if isinstance(source, cls):
            return source._checked()
        found = source if isinstance(source, Mapping) else _attributes(source)
        missing = [name for name in ("name", "facts", "layers", "tokens", "units") if name not in found]
        if missing:
            raise InputError(
                f"surveys: wanted name, facts, layers, tokens and units; {type(source).__name__} lacks "
                f"{', '.join(missing)}. Pass theodolite.report.Tables(...), in a list."
            )
        return cls(**{each.name: found[each.name] for each in fields(cls) if each.name in found})._checked()

    def _checked(self) -> Tables:
        absent = [name for name in NEEDED if name not in self.layers.columns]
        if absent and len(self.layers):
            raise InputError(
                f"layers: wanted the columns layer and population; {self.name!r} lacks {', '.join(absent)}. "
                "Pass the survey's layers.parquet as it was written."
            )
        return replace(self, layers=with_shares(self.layers))


def _attributes(source: object) -> dict[str, Any]:
    names = [each.name for each in fields(Tables)]
    return {name: getattr(source, name) for name in names if hasattr(source, name)}
