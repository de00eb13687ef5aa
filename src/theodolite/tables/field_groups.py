"""groups.parquet and group_differences.parquet: the groups of documents by a field of the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.corpora.fields import FieldChoice
from theodolite.engines.threads import run_in_threads
from theodolite.measures.columns import FEW_GROUPS, NO_DIRECTION, NO_POSITION, column_names
from theodolite.measures.decomposition import decomposition, unit_moments
from theodolite.measures.group_differences import COMPARED, PAIRED, FieldSums, Z, compare_groups
from theodolite.models.layers import Layer
from theodolite.sources.units import Units
from theodolite.state.state import State
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.field_groups import FieldGroups
from theodolite.statistics.fold import LayerFold
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.shape import measure_spectrum
from theodolite.tables.tables import group_table, measure_populations

GROUPS = set(column_names("groups"))
NO_SAMPLE = "no vectors of single groups are sampled"
OF_UNITS = ("types", "v_within", "v_between")
ONE_GROUP = "there is no other group with a position"
Row = dict[str, Any]


class GroupTables(NamedTuple):
    """The two tables of the groups of a survey."""

    groups: pd.DataFrame
    group_differences: pd.DataFrame


def make_group_tables(
    state: State, layers: Sequence[Layer], populations: Sequence[str], choice: FieldChoice
) -> GroupTables:
    """Compute both tables from the sums of the state."""

    def measure(layer: Layer) -> tuple[list[Row], list[pd.DataFrame]]:
        return _measure_layer(state.folds[layer.index], layer, populations, choice, state.units)

    groups: list[Row] = []
    differences: list[pd.DataFrame] = [group_table("group_differences")]
    with run_in_threads(measure, layers, min(torch.get_num_threads(), len(layers))) as waits:
        for wait in waits:
            own, between = wait()
            groups += own
            differences += between
    held = [part for part in differences if len(part)] or differences
    return GroupTables(group_table("groups", groups), pd.concat(held, ignore_index=True))


def _measure_layer(
    fold: LayerFold, layer: Layer, populations: Sequence[str], choice: FieldChoice, units: Units
) -> tuple[list[Row], list[pd.DataFrame]]:
    stored = fold.field_groups
    assert stored is not None, "the state has no groups"
    few = f"only the {choice.matrices} largest groups have spectra: more need too much memory for all layers"
    with_units = layer.units and units.kind != "none"
    own = {
        code: _rows_of_group(fold, stored, code, populations, few, with_units=with_units) for code in choice.shown
    }
    heads = {"layer": layer.index, "layer_name": layer.name}
    groups: list[Row] = []
    differences: list[pd.DataFrame] = []
    for population in populations:
        sums, centre = sum_cells(stored, POPULATIONS[population]), fold.frame.centre.double().numpy()
        values, errors = compare_groups(sums, centre)
        near = _nearest(values["centroid_distance"])
        for code in choice.shown:
            names = {"population": population, "group": choice.names[code], "documents": choice.documents[code]}
            row = own[code][population]
            other, distance = near.get(code, (None, None))
            row |= {"nearest": None if other is None else choice.names[other], "nearest_distance": distance}
            if other is None:
                row["undefined"] = _reasons(
                    row["undefined"], {"nearest": ONE_GROUP, "nearest_distance": ONE_GROUP}
                )
            groups.append(heads | names | row)
        held = [code for code in choice.shown if sums.n[code].any()]
        pairs = _differences(values, errors, np.array(held, dtype=np.int64), np.array(choice.names, dtype=object))
        pairs["layer"], pairs["layer_name"], pairs["population"] = layer.index, layer.name, population
        differences.append(group_table("group_differences", pairs))
    return groups, differences


def _rows_of_group(
    whole: LayerFold, stored: FieldGroups, code: int, populations: Sequence[str], few: str, *, with_units: bool
) -> dict[str, Row]:
    """Return the columns of layers.parquet that groups.parquet has too, by population."""
    fold = group_fold(whole, code)
    lacking = {cell for cell, sums in stored.cells.items() if code in sums.without_matrix()}

    def measure(cells: tuple[int, ...]) -> Row:
        shape = measure_spectrum(fold, cells, NO_SAMPLE, lacking=few if lacking & set(cells) else None)
        row = make_layer_row(fold, cells, with_units=False, shape=shape)[0]
        row["undefined"] = _reasons(row["undefined"], {})
        return _add_units(row, stored, code, cells) if with_units else row

    return {name: dict(row) for name, row in measure_populations(fold, populations, measure).items()}


def _add_units(row: Row, stored: FieldGroups, code: int, cells: tuple[int, ...]) -> Row:
    """Return the row with the number of units, V_W and V_B, or why they are unknown."""
    if not row["n"]:
        return row | {"types": 0}
    sums = stored.unit_sums(code, cells)
    if sums is None:
        return row | {"undefined": _reasons(row["undefined"], dict.fromkeys(OF_UNITS, _explain_units(stored)))}
    n, total, squares, centre = (part.numpy() for part in (sums.n, sums.sum, sums.squares, sums.centre))
    found = decomposition(n, total, squares, centre, unit_moments(n, total, squares, centre).v)
    reasons = {name: why for name, why in json.loads(row["undefined"] or "{}").items() if name not in OF_UNITS}
    units = {"types": len(n), "v_within": found.v_within, "v_between": found.v_between}
    return row | units | {"undefined": json.dumps(reasons) if reasons else None}


def _explain_units(stored: FieldGroups) -> str:
    if not stored.frame.by_rows:
        return "sums of an older version have none by unit and group; survey again"
    kept = int((~stored.without_units).sum())
    return f"only the {kept} largest groups have sums by unit: more need too much memory for all layers"


def _reasons(undefined: str | None, more: Mapping[str, str]) -> str | None:
    known = {name: why for name, why in json.loads(undefined or "{}").items() if name in GROUPS} | dict(more)
    return json.dumps(known) if known else None


def group_fold(fold: LayerFold, code: int) -> LayerFold:
    """Return the statistics of one group of a layer, as a survey of its documents alone would have them."""
    stored = fold.field_groups
    assert stored is not None, "the state has no groups"
    frame = replace(
        fold.frame,
        by_groups=0,
        by_matrices=0,
        by_rows=0,
        kept=None,
        frequent=(),
        contextuality=False,
        sample_size=0,
    )
    own = LayerFold(frame)
    own.norms.nonfinite += stored.nonfinite[:, code]
    for cell, sums in stored.cells.items():
        n = sums.n[code].sum()
        if not n:
            continue
        total = sums.sum[code].sum(0)
        own.moments.tables[cell].add_sums(
            torch.zeros(1, dtype=torch.int64), n[None], total[None], sums.squares[code].sum()[None]
        )
        own.directions.n[cell], own.directions.sum[cell] = sums.directed[code].sum(), sums.directions[code].sum(0)
        own.directions.squares[cell] = sums.direction_squares[code]
        for name in ("counts", "zero", "lowest", "highest"):
            getattr(own.norms, name)[cell] = getattr(sums, name)[code]
        for name in FieldSums._fields:
            getattr(own.groups, name)[cell] = getattr(sums, name)[code]
        own.scatter.n[cell], own.scatter.sum[cell] = n, total
        if code in sums.products:
            own.scatter.products[cell] = sums.products[code]
    return own


def sum_cells(stored: FieldGroups, cells: Sequence[int]) -> FieldSums:
    """Return the sums of a population by group and document group."""
    empty = FieldGroups(stored.frame)._cell(0)
    held = [stored.cells[cell] for cell in cells if cell in stored.cells] or [empty]
    return FieldSums(
        *(np.asarray(sum(getattr(sums, name).numpy() for sums in held)) for name in FieldSums._fields)
    )


def _nearest(distances: NDArray[np.float64]) -> dict[int, tuple[int, float]]:
    """Return for each group that has another one beside it the nearest, and the distance of their means."""
    apart = np.where(np.eye(len(distances), dtype=bool) | ~np.isfinite(distances), np.inf, distances)
    return {
        code: (int(row.argmin()), float(row.min())) for code, row in enumerate(apart) if np.isfinite(row).any()
    }


def _differences(
    values: Mapping[str, NDArray[np.float64]],
    errors: Mapping[str, NDArray[np.float64]],
    held: NDArray[np.int64],
    names: NDArray[np.object_],
) -> pd.DataFrame:
    """Return the numbers of all pairs of the groups `held`; those that are not finite are null, with a reason."""
    first, second = (held[part] for part in np.triu_indices(len(held), 1))
    columns: dict[str, NDArray[np.float64]] = {}
    for name in COMPARED:
        value, error = values[name][first, second], errors[name][first, second]
        columns |= {f"{name}_difference": value, f"{name}_difference_se": error}
        columns |= {f"{name}_difference_low": value - Z * error, f"{name}_difference_high": value + Z * error}
    for name in PAIRED:
        columns |= {name: values[name][first, second], f"{name}_se": errors[name][first, second]}
    unknown = ~np.isfinite(np.stack(list(columns.values()), axis=1))
    reasons = {lacking.tobytes(): _explain(columns, lacking) for lacking in unknown}
    table = pd.DataFrame(columns).where(~unknown)
    table["group"], table["other"] = names[first], names[second]
    table["undefined"] = [reasons[lacking.tobytes()] for lacking in unknown]
    return table


def _explain(columns: Iterable[str], lacking: NDArray[np.bool_]) -> str | None:
    reasons = {name: _why(name) for name, missing in zip(columns, lacking, strict=True) if missing}
    return json.dumps(reasons) if reasons else None


def _why(name: str) -> str:
    if name.endswith(("_se", "_low", "_high")) or name == "centroid_separation":
        return FEW_GROUPS
    return NO_DIRECTION if "cosine" in name else NO_POSITION
