"""Units as packed columns: texts, keys, n, and M and V by layer and unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.escaping import restore_space, show_token
from theodolite.report.payload.layers import list_layers
from theodolite.report.payload.pack import pack_bytes, pack_counts, pack_short_floats
from theodolite.report.tables import Tables, populations

NEEDED = {"layer", "population", "unit", "n", "m", "v"}
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Matrices:
    """n, M and V of every unit at every layer of one population, each (layers, units); undefined is NaN."""

    n: NDArray[np.float64]  # 0 for a unit that does not occur
    m: NDArray[np.float32]
    v: NDArray[np.float32]

    def equals(self, other: Matrices) -> bool:
        """Return whether another population has the same numbers."""
        pairs = ((self.n, other.n), (self.m, other.m), (self.v, other.v))
        return all(np.array_equal(one, two, equal_nan=True) for one, two in pairs)


@dataclass(frozen=True, eq=False)
class UnitMatrices:
    """The units of a survey, most frequent first, and their matrices by population."""

    units: list[Any]
    by_population: dict[str, Matrices]
    same: dict[str, str]  # populations with the numbers of an earlier one, and that one

    def __len__(self) -> int:
        return len(self.units)


_read: WeakKeyDictionary[Tables, UnitMatrices] = WeakKeyDictionary()


def read_matrices(tables: Tables) -> UnitMatrices:
    """Return the token table as matrices; finished tables do not change, so they are read once."""
    if tables not in _read:
        _read[tables] = _make_matrices(tables)
    return _read[tables]


def _make_matrices(tables: Tables) -> UnitMatrices:
    frame = tables.tokens
    if not set(frame.columns) >= NEEDED or not len(frame):
        return UnitMatrices([], {}, {})
    column, units = _number_units(frame["unit"])
    layers = [layer["layer"] for layer in list_layers(tables)]
    row = pd.Index(layers).get_indexer(frame["layer"])
    known = (row >= 0) & (column >= 0)
    shape = (len(layers), len(units))
    numbers = {name: _to_floats(frame[name]) for name in ("n", "m", "v")}
    made: dict[str, Matrices] = {}
    for population in populations(tables):
        rows = np.flatnonzero((frame["population"] == population).to_numpy() & known)
        if len(rows):
            at = (row[rows], column[rows])
            m, v = np.full((2, *shape), np.nan, dtype=np.float32)
            made[population] = Matrices(np.zeros(shape), m, v)
            made[population].n[at] = np.nan_to_num(numbers["n"][rows])
            m[at], v[at] = numbers["m"][rows], numbers["v"][rows]
    occurring = np.zeros(len(units), dtype=bool)  # a category may have no rows
    occurring[column[known]] = True
    most = np.max([matrices.n.max(axis=0, initial=0) for matrices in made.values()], axis=0, initial=0)
    order = np.argsort(-most, kind="stable") if made else np.empty(0, dtype=np.int64)
    order = order[occurring[order]]
    found: dict[str, Matrices] = {}
    same: dict[str, str] = {}
    for population, of in made.items():
        matrices = Matrices(of.n[:, order], of.m[:, order], of.v[:, order])
        equal = next((name for name, other in found.items() if other.equals(matrices)), None)
        found[population] = matrices if equal is None else found[equal]
        if equal is not None:
            same[population] = equal
    return UnitMatrices([units[at] for at in order], found, same)


def _number_units(values: pd.Series[Any]) -> tuple[Places, NDArray[np.object_]]:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return np.asarray(values.cat.codes, dtype=np.int64), np.asarray(values.cat.categories, dtype=object)
    # By number, because an Arrow string cannot hold a lone surrogate.
    place, units = pd.factorize(values.to_numpy(dtype=object))
    return place.astype(np.int64), units


def _to_floats(values: pd.Series[Any]) -> NDArray[np.float64]:
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def order_units(tables: Tables) -> list[Any]:
    """Return the units, most frequent first."""
    return read_matrices(tables).units


def pack_units(tables: Tables, chosen: Places | None = None) -> dict[str, Any]:
    """Return the units in the order of the matrices, all or those chosen.

    `text`; `key`, None if it is the text; `special`; and `total`, the number of units of the survey.
    """
    units = order_units(tables)
    listed = units if chosen is None else [units[at] for at in chosen]
    texts, special = _unit_texts(tables, listed)
    keys = [None if str(unit) == text else str(unit) for unit, text in zip(listed, texts, strict=True)]
    return {"text": texts, "key": keys, "special": pack_bytes(special), "total": len(units)}


def pack_tokens(tables: Tables, chosen: Places | None = None) -> dict[str, dict[str, Any]]:
    """Return n of each unit, and M and V by layer and unit, for each population; Q is their sum.

    A unit that does not occur in a population at a layer has NaN. A population that is equal to an earlier one
    only names it, as `same`.
    """
    matrices = read_matrices(tables)
    packed: dict[str, dict[str, Any]] = {}
    for population, found in matrices.by_population.items():
        if population in matrices.same:
            packed[population] = {"same": matrices.same[population]}
            continue
        n, m, v = (part if chosen is None else part[:, chosen] for part in (found.n, found.m, found.v))
        seen = n.max(axis=0, initial=0)
        packed[population] = {"n": pack_counts(seen), "m": pack_short_floats(m), "v": pack_short_floats(v)}
        # Without massive vectors n may differ between layers; only the differences are stored.
        fewer = np.nonzero(n != seen)
        if len(fewer[0]):
            packed[population]["fewer"] = [pack_counts(each) for each in (*fewer, n[fewer])]
    return packed


def _unit_texts(tables: Tables, listed: list[Any]) -> tuple[list[str], list[bool]]:
    known: dict[Any, tuple[Any, bool]] = {}
    if "unit" in tables.units.columns:
        texts = tables.units["text"] if "text" in tables.units.columns else [None] * len(tables.units)
        special = tables.units["special"] if "special" in tables.units.columns else [False] * len(tables.units)
        for unit, text, is_special in zip(tables.units["unit"], texts, special, strict=True):
            known[unit] = (text, bool(pd.notna(is_special) and is_special == 1))
    words, marks = [], []
    for unit in listed:
        text, is_special = known.get(unit, (None, False))
        words.append(show_token(text if isinstance(text, str) else restore_space(str(unit))))
        marks.append(is_special)
    return words, marks


# Which units a page holds

FREQUENT = 10  # occurrences from which M and V of a unit are compared with the fit
EXTREMES = 6  # units at each end of M and of V at every layer


def choose_units(tables: Tables, most: int) -> Places:
    """Return the units that matter, at most `most`, in the order of the matrices, which is by frequency.

    A quarter are units of the projected sample, special ones and the extremes of M and V at every layer; a
    quarter those farthest from the line of V on M at any layer; the others are the most frequent.
    """
    matrices = read_matrices(tables)
    if len(matrices) <= most:
        return np.arange(len(matrices))
    found = next(iter(matrices.by_population.values()))
    taken = np.zeros(len(matrices), dtype=bool)
    required = [*_list_special(tables, matrices), *_find_extremes(found), *_list_sampled(tables, matrices)]
    taken[list(dict.fromkeys(required))[: most // 4]] = True
    away = np.where(taken, -1.0, measure_distances(found))
    far = np.argsort(-away, kind="stable")[: most // 4]
    taken[far[away[far] > 0]] = True
    rest = np.flatnonzero(~taken)[: most - int(taken.sum())]
    taken[rest] = True
    return np.flatnonzero(taken)


def _list_special(tables: Tables, matrices: UnitMatrices) -> list[int]:
    if not {"unit", "special"} <= set(tables.units.columns):
        return []
    special = set(tables.units.loc[tables.units["special"].fillna(False).astype(bool), "unit"])
    return [at for at, unit in enumerate(matrices.units) if unit in special]


def _list_sampled(tables: Tables, matrices: UnitMatrices) -> list[int]:
    if "unit" not in tables.projections.columns:
        return []
    counts = tables.projections["unit"].value_counts()
    sampled = set(counts.index)
    return [at for at, unit in enumerate(matrices.units) if unit in sampled]


def _find_extremes(found: Matrices) -> list[int]:
    chosen: list[int] = []
    for n, m, v in zip(found.n, found.m, found.v, strict=True):
        frequent = np.flatnonzero((n >= FREQUENT) & np.isfinite(m) & np.isfinite(v))
        for values in (m, v):
            order = frequent[np.argsort(values[frequent], kind="stable")]
            chosen += [*order[:EXTREMES].tolist(), *order[len(order) - min(EXTREMES, len(order)) :].tolist()]
    return chosen


def measure_distances(found: Matrices) -> NDArray[np.float64]:
    """Return how far each frequent unit is from the line of V on M, in standard deviations: the most of any layer.

    Units that are not frequent, or have no M and V, are at 0.
    """
    farthest = np.zeros(found.n.shape[1])
    for n, m, v in zip(found.n, found.m.astype(np.float64), found.v.astype(np.float64), strict=True):
        used = (n >= FREQUENT) & np.isfinite(m) & np.isfinite(v)
        spread = m[used] - m[used].mean() if used.sum() > 2 else np.zeros(0)
        if not spread.any():
            continue
        away = v[used] - v[used].mean()
        away = np.abs(away - spread * (spread @ away) / (spread @ spread))
        deviation = np.sqrt(np.mean(away**2))
        if deviation > 0:
            farthest[used] = np.maximum(farthest[used], away / deviation)
    return farthest
