"""Cells: the numbers that a rule is about, of the subject and of its baseline, matched by layer and key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from theodolite.checks.rules import Rule
from theodolite.checks.subject import Subject, find_table
from theodolite.errors import InputError, nearest
from theodolite.measures.columns import RATIOS
from theodolite.models.layers import select_layers
from theodolite.tables.unit_sets import NEEDED

ROW_KEYS = {
    "tokens": ("unit",),
    "units": ("unit",),
    "coordinates": ("coordinate",),
    "spectra": ("rank",),
    "scales": ("scale",),
    "answers": ("question",),
    "thresholds": ("pairs", "false_match_rate"),
    "cost": ("transform",),
}
"""Columns that identify the rows of a table, besides layer and population."""
PARTS = {
    f"{prefix}{column.name}": (f"{prefix}{column.parts[0]}", f"{prefix}{column.parts[1]}")
    for prefix in ("", *NEEDED)
    for column in RATIOS
    if column.parts
}
"""Shares such as m_of_q, which are computed from two columns."""


@dataclass
class Cell:
    """One number of a rule. value, baseline: None if undefined; reason: why one of them is.

    allowed         by how much they may differ; None for a test
    se, p, p_adjusted
                    of a test; p_adjusted is over all tests of the check
    """

    layer: int | None
    layer_name: str
    population: str
    key: str
    value: Any
    baseline: Any
    reason: str = ""
    allowed: float | None = None
    se: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    broken: bool = False

    @property
    def difference(self) -> float | None:
        """The number minus that of the baseline."""
        known = all(isinstance(one, float) for one in (self.value, self.baseline))
        return self.value - self.baseline if known else None

    @property
    def place(self) -> str:
        """Where the number stands: layer and key."""
        layer = "" if self.layer is None else f"layer {self.layer} ({self.layer_name})"
        return ", ".join(part for part in (layer, self.key) if part)


def find_cells(rule: Rule, subject: Subject, baseline: Subject, where: str) -> list[Cell]:
    """Return the cells of a rule; raise InputError if the rule names what one side does not have."""
    mine, theirs = (_select(rule, one, baseline, where) for one in (subject, baseline))
    if set(mine) != set(theirs):
        key = sorted(set(mine) ^ set(theirs), key=str)[0]
        has, lacks = (subject, baseline) if key in mine else (baseline, subject)
        described = ", ".join(str(part) for part in key if part not in (None, ""))
        raise InputError(f"{where}: {described} is in {has.name} and not in {lacks.name}.")
    if not mine:
        raise InputError(f"{where}: no row of {rule.table} is selected in {subject.name}.")
    names = {int(one["index"]): str(one["name"]) for one in subject.facts.get("layers", ())}
    cells = []
    for key, row in mine.items():
        layer, population, rest = key
        value, before = (_value(rule.column, one) for one in (row, theirs[key]))
        undefined = row if value is None else theirs[key] if before is None else {}
        reason = _reason(rule.column, undefined)
        cells.append(Cell(layer, names.get(layer, ""), population, rest, value, before, reason))
    return cells


def _select(rule: Rule, one: Subject, baseline: Subject, where: str) -> dict[tuple[Any, str, str], dict[str, Any]]:
    """Return the rows of a rule by layer, population and key."""
    table = _check_column(rule, find_table(one, rule.table), one, where)
    population = ""
    if "population" in table:
        population = rule.population or baseline.population
        known = list(dict.fromkeys(table["population"]))
        if population not in known:
            hint = nearest(population, known) or f" It has {', '.join(known)}."
            raise InputError(f"{where}: {one.name} has no population {population!r}.{hint}")
        table = table[table["population"] == population]
    elif rule.population is not None:
        raise InputError(f"{where}: the table {rule.table} has no populations.")
    if "layer" in table:
        try:
            chosen = select_layers(one.layer_numbers, _plain(rule.layers), "layers")
        except InputError as error:
            raise InputError(f"{where}: {error.message}") from None
        table = table[table["layer"].isin(chosen)]
    elif rule.layers is not None:
        raise InputError(f"{where}: the table {rule.table} has no layers.")
    for column, value in rule.where.items():
        if column not in table:
            raise InputError(f"{where}: the table {rule.table} has no column {column!r} to select rows by.")
        table = table[table[column] == value]
    keys = [name for name in ROW_KEYS.get(rule.table, ()) if name in table and name not in rule.where]
    needed = [*keys, "layer", "undefined", "reason", rule.column, *PARTS.get(rule.column, ())]
    found = {}
    for row in table[[name for name in dict.fromkeys(needed) if name in table]].to_dict("records"):
        layer = int(row["layer"]) if "layer" in row else None
        key = (layer, population, ", ".join(str(row[name]) for name in keys))
        if key in found:
            raise InputError(
                f"{where} selects several rows of {rule.table} in {one.name}; choose one with where, such as "
                f"where = {{ {_other_column(table, rule)} = ... }}."
            )
        found[key] = {str(name): value for name, value in row.items()}
    return found


def _plain(layers: Any) -> Any:
    return list(layers) if isinstance(layers, tuple) else layers


def _check_column(rule: Rule, table: pd.DataFrame, one: Subject, where: str) -> pd.DataFrame:
    needed = PARTS[rule.column] if rule.table == "layers" and rule.column in PARTS else (rule.column,)
    for name in needed:
        if name not in table:
            known = [str(column) for column in table.columns]
            hint = nearest(rule.column, known) or f" It has {', '.join(known[:12])}."
            raise InputError(f"{where}: the table {rule.table} of {one.name} has no column {rule.column!r}.{hint}")
        if not rule.equal and any(isinstance(one, str) for one in table[name].dropna()):
            raise InputError(f"{where}: {rule.column} is text; only equal = true can be asked of it.")
    return table


def _other_column(table: pd.DataFrame, rule: Rule) -> str:
    other = [str(name) for name in table if name not in ("layer", "layer_name", "population", rule.column)]
    return other[0] if other else "COLUMN"


def _value(column: str, row: dict[str, Any]) -> Any:
    """Return a number as float, text as it is, and None for null."""
    if column in PARTS and column not in row:
        above, below = (_value(part, row) for part in PARTS[column])
        return None if above is None or not below else above / below
    value = row[column]
    if value is None or pd.isna(value):
        return None
    return value if isinstance(value, str) else float(value)


def _reason(column: str, row: dict[str, Any]) -> str:
    """Return why a number is null, if the table states it."""
    stored = row.get("undefined")
    reasons = json.loads(stored) if isinstance(stored, str) and stored.startswith("{") else {}
    return str(reasons.get(column) or row.get("reason") or "")
