"""The finished tables of one series: the layers of one model at several steps of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.measures.formula import formula_of_column
from theodolite.report.tables import Tables

NEEDED = ("step", "layer", "population")


@dataclass(frozen=True, eq=False)
class Steps:
    """One series, read: its name, `series.json` as a dict, a row per step, layer and population, and attention.

    `attention` has a row per step, block and population; it may be empty. Any other column may be missing.
    """

    name: str
    facts: dict[str, Any]
    table: pd.DataFrame
    attention: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, source: Steps | Mapping[str, Any]) -> Steps:
        """Take a series from `Steps` or a mapping with the same keys, its columns checked."""
        if not isinstance(source, cls):
            given = dict(source)  # type: ignore[arg-type]
            lacking = [key for key in ("name", "facts", "table") if key not in given]
            if lacking:
                raise InputError(f"series: wanted name, facts and table; {', '.join(lacking)} did not come.")
            source = cls(**given)
        absent = [name for name in NEEDED if name not in source.table.columns]
        if absent:
            raise InputError(
                f"series: wanted the columns step, layer and population; {source.name!r} lacks "
                f"{', '.join(absent)}. Pass the series.parquet as it was written."
            )
        return source

    @property
    def tables(self) -> Tables:
        """The series as findings read it: layers told by step, no units. A series names no formulas of its own."""
        known = formula_of_column()
        formulas = {str(column): known[column] for column in self.table.columns if column in known}
        nothing = pd.DataFrame()
        return Tables(self.name, {**self.facts, "formulas": {"layers": formulas}}, self.table, nothing, nothing)

    @property
    def steps(self) -> list[int]:
        """The steps, first to last."""
        return sorted(int(step) for step in self.table["step"].dropna().unique())
