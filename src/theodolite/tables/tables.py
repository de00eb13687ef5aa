"""From sums to tables: layers, tokens, units, coordinates, scales, spectra and jackknife as data frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.engines.gpu import OnDevice, copy_sums_to_device, on_own_stream
from theodolite.engines.threads import run_in_threads
from theodolite.errors import TheodoliteError
from theodolite.hashing import text_hash
from theodolite.measures.columns import COLUMNS, column_names, integer_columns
from theodolite.measures.decomposition import UnitMoments, unbiased
from theodolite.models.layers import Layer
from theodolite.sources.batch_limit import is_out_of_memory
from theodolite.state.state import State
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.tables import contextuality
from theodolite.tables.attention import attention_table
from theodolite.tables.contexts import contexts_table
from theodolite.tables.coordinates import coordinate_rows, join_coordinates
from theodolite.tables.curves import curve_table
from theodolite.tables.eigenproblems import LayerSolutions, solve_ahead
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.neighbours import HashUnits, NearestUnits, find_nearest_units, neighbours_table
from theodolite.tables.rare_units import RarePart, find_rare
from theodolite.tables.shape import Shape, measure_shape
from theodolite.text import encodable

LAYERS, TOKENS, UNITS = (column_names(table) for table in ("layers", "tokens", "units"))
INTEGERS = integer_columns("layers")


def empty_table(name: str) -> pd.DataFrame:
    """Return a table without rows: of a survey without these measurements, or of an older version."""
    return _empty_table(name).copy()


@cache
def _empty_table(name: str) -> pd.DataFrame:
    if name == "contexts":
        return contexts_table()
    if name in ("groups", "group_differences"):
        return group_table(name)
    if name == "attention":
        return attention_table()
    return neighbours_table() if name == "neighbours" else curve_table(name)


def group_table(name: str, rows: Sequence[dict[str, Any]] | pd.DataFrame = ()) -> pd.DataFrame:
    """Return groups.parquet or group_differences.parquet from its rows, also where there are none."""
    kinds = {"text": "str", "integer": "Int64"}
    types = {column.name: kinds.get(column.format, "float64") for column in COLUMNS[name].values()}
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    return table.reindex(columns=list(types)).astype(types)


@dataclass(frozen=True)
class SurveyTables:
    """The finished tables of a survey."""

    layers: pd.DataFrame
    tokens: pd.DataFrame
    units: pd.DataFrame
    coordinates: pd.DataFrame
    scales: pd.DataFrame
    spectra: pd.DataFrame
    jackknife: pd.DataFrame
    neighbours: pd.DataFrame = field(default_factory=partial(empty_table, "neighbours"))
    contexts: pd.DataFrame = field(default_factory=partial(empty_table, "contexts"))
    groups: pd.DataFrame = field(default_factory=partial(empty_table, "groups"))
    group_differences: pd.DataFrame = field(default_factory=partial(empty_table, "group_differences"))
    attention: pd.DataFrame = field(default_factory=partial(empty_table, "attention"))


WITH_NEIGHBOURS = ("without-sinks", "without-massive", "all")
"""The population whose nearest units are listed: the first of these that is reported."""
COPIES = 3
"""Copies of one layer's sums by unit that may exist at once; the memory estimate includes them."""
LAYERS_ON_DEVICE = 4
"""Layers measured at once with a device: more wait for each other, for the interpreter and on the device."""


@dataclass(frozen=True)
class MeasuredLayer:
    """One population of one layer: its row, and by unit the code, n, Q, M, V, self-similarity, M_c and V_c."""

    row: dict[str, Any]
    codes: NDArray[np.int64]
    n: NDArray[np.int64]
    units: UnitMoments
    similarity: NDArray[np.float64]
    clustered: tuple[NDArray[np.float64], NDArray[np.float64]]
    by_coordinate: pd.DataFrame
    shape: Shape
    jackknife: pd.DataFrame
    near: NearestUnits | None


def make_tables(
    state: State,
    layers: Sequence[Layer],
    populations: Sequence[str],
    *,
    lost: dict[str, str] | None = None,
    say: Callable[[str], None] | None = None,
    device: str | None = None,
    workers: int | None = None,
    spare: int = 0,
    on_device: dict[int, OnDevice] | None = None,
    on_tokens: Callable[[pd.DataFrame], None] | None = None,
) -> SurveyTables:
    """Compute all tables from the state. `lost` gives, for populations that cannot be reported, the reason.

    With a `device`, sums by unit and the sample are measured there. Layers are measured in parallel, by default on
    as many threads as torch may use; `spare` bytes may be used for copies of their sums. Sums that are already
    `on_device` are removed from the mapping, and freed when their layer has been measured. `on_tokens` gets the
    rows of tokens.parquet, one layer after the other.
    """
    rows, tokens, coordinates, seen = [], [], [], np.zeros(len(state.units), dtype=bool)
    scales, spectra, jackknife, neighbours = [], [], [], []
    reported = [population for population in populations if population not in (lost or {})]
    with_neighbours = next((name for name in WITH_NEIGHBOURS if name in reported), None)

    def hash_units(codes: NDArray[np.int64]) -> NDArray[np.uint64]:
        return np.array([text_hash(state.units.known[code].key) for code in codes.tolist()], dtype=np.uint64)

    def measure(layer: Layer) -> tuple[dict[str, MeasuredLayer], pd.DataFrame | None]:
        measured = measure_populations_of(layer)
        if not reported or not layer.units or state.units.kind == "none":
            return measured, None
        return measured, _token_rows(layer, [(name, measured[name]) for name in reported], names)

    def measure_populations_of(layer: Layer) -> dict[str, MeasuredLayer]:
        with_units = layer.units and state.units.kind != "none"
        present = (on_device or {}).pop(layer.index, None)
        near = hash_units if with_units else None
        solutions = cache(partial(wait_for_solutions, numbers[layer.index]))

        def on(device: str | None, solved: Callable[[], LayerSolutions | None]) -> dict[str, MeasuredLayer]:
            with on_own_stream(device):
                return _measure_layer(
                    state.folds[layer.index],
                    reported,
                    special,
                    device,
                    None if device is None else present,
                    near,
                    with_neighbours,
                    rare_hashes,
                    solved,
                )

        # A layer that does not fit is tried again without other solutions, then on the CPU: the run is not lost.
        for solved in (solutions, lambda: None):
            try:
                return on(device, solved)
            except RuntimeError as error:
                if device is None or not is_out_of_memory(error):
                    raise
            solutions.cache_clear()
            torch.cuda.empty_cache()  # outside of `except`, which keeps tensors in memory
        return on(None, lambda: None)

    workers = workers or min(_workers(state, layers, spare), len(layers) if device is None else LAYERS_ON_DEVICE)
    numbers = {layer.index: number for number, layer in enumerate(layers)}
    to_solve = [(fold, _cells_to_solve(fold, reported)) for fold in (state.folds[i] for i in numbers)]
    with ExitStack() as stack:
        wait_for_solutions = stack.enter_context(solve_ahead(to_solve, device))
        names = pd.Series([encodable(unit.key) for unit in state.units.known])
        special = [code for code, unit in enumerate(state.units.known) if unit.special]
        rare_hashes = _hash_units(state)
        waits = stack.enter_context(run_in_threads(measure, layers, workers))
        for layer, found in zip(layers, waits, strict=True):
            if say:
                say(f"measuring layer {layer.index} ({layer.name})")
            measured, of_tokens = found()
            for population in populations:
                head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
                head["population"] = population
                if population not in measured:
                    rows.append(head | {"undefined": _all_undefined((lost or {})[population])})
                    continue
                one = measured[population]
                if population == "all" and one.row["n"] == 0:
                    raise TheodoliteError(_no_finite_states(layer, one.row["nonfinite"]))
                rows.append(head | one.row)
                coordinates.append((layer.index, population, one.by_coordinate))
                scales.append((layer.index, population, one.shape.scales))
                spectra.append((layer.index, population, one.shape.spectrum))
                jackknife.append((layer.index, population, one.jackknife))
                if of_tokens is not None:
                    seen[one.codes] = True
                if one.near is not None and population == with_neighbours:
                    neighbours.append((layer.index, population, one.near))
            if of_tokens is not None and len(of_tokens):
                tokens.append(of_tokens)
                if on_tokens is not None:
                    on_tokens(of_tokens)
    all_tokens = pd.concat(tokens, ignore_index=True) if tokens else pd.DataFrame({name: [] for name in TOKENS})
    kept = _layers(rows), all_tokens, _units(state, seen), join_coordinates(coordinates)
    curves = {"scales": scales, "spectra": spectra, "jackknife": jackknife}
    made = {name: curve_table(name, parts) for name, parts in curves.items()}
    measured_attention = any(state.folds[layer.index].attention is not None for layer in layers)
    attention = attention_table(state, layers, reported) if measured_attention else empty_table("attention")
    return SurveyTables(*kept, **made, neighbours=neighbours_table(neighbours, names), attention=attention)


def _measure_layer(
    fold: LayerFold,
    populations: Sequence[str],
    special: Sequence[int],
    device: str | None,
    present: OnDevice | None,
    hash_units: HashUnits | None,
    with_neighbours: str | None,
    rare_hashes: Tensor | None,
    solutions: Callable[[], LayerSolutions | None],
) -> dict[str, MeasuredLayer]:
    """Measure the populations of one layer; equal ones (no position is massive, for example) are measured once.

    `hash_units` is None if the vectors of the layer have no units.
    """
    with_units = hash_units is not None
    shown = _held_cells(fold, with_neighbours) if with_neighbours is not None else ()
    moved = copy_sums_to_device(fold, device, present.sums if present else None)
    vectors = None
    if device is not None and not fold.wide:
        vectors = fold.sample.copy_to_device(torch.device(device), present.vectors if present else {})

    def measure(cells: tuple[int, ...]) -> MeasuredLayer:
        sample = fold.sample.population(cells, vectors)
        shape = measure_shape(fold, cells, device, sample, solutions)
        row, sums, units, similarity, jackknife = make_layer_row(
            fold,
            cells,
            with_units=with_units,
            special=special,
            shape=shape,
            moved=moved,
            names=rare_hashes,
            sample=sample,
        )
        rare = find_rare(fold, cells, sums, units, rare_hashes)
        by_coordinate = coordinate_rows(
            fold,
            cells,
            sums,
            v_within=row["v_within"],
            v_between=row["v_between"],
            with_units=with_units,
            rare=rare,
        )
        # Copies, so that the sums, which are as large as the fold itself, can be freed.
        codes, n = sums.codes.numpy().copy(), sums.n.numpy().copy()
        alike = contextuality.clustered_by_unit(fold, cells, sums, units)
        near = None
        if hash_units is not None and cells == shown:
            near = find_nearest_units(sums, hash_units)
        measured = MeasuredLayer(row, codes, n, units, similarity, alike, by_coordinate, shape, jackknife, near)
        return measured if rare is None else _with_rare(measured, rare)

    return measure_populations(fold, populations, measure)


def _with_rare(measured: MeasuredLayer, rare: RarePart) -> MeasuredLayer:
    """Return the same with rows for the units without a vector, sorted by code."""
    codes = np.concatenate([measured.codes, rare.sums.codes.numpy()])
    order = np.argsort(codes)
    n = np.concatenate([measured.n, rare.sums.n.numpy()])[order]
    units = (np.concatenate(pair)[order] for pair in zip(measured.units, rare.moments(), strict=True))
    unknown = np.full(len(rare.sums.n), np.nan)
    similarity, *clustered = (
        np.concatenate([known, unknown])[order] for known in (measured.similarity, *measured.clustered)
    )
    return replace(
        measured,
        codes=codes[order],
        n=n,
        units=UnitMoments(*units),
        similarity=similarity,
        clustered=(clustered[0], clustered[1]),
    )


def _hash_units(state: State) -> Tensor | None:
    """Return the hash of every unit where units are numbered as they occur: the name of a unit in `KeptUnits`."""
    if not state.units.open or all(fold.frame.kept is None for fold in state.folds.values()):
        return None
    return torch.from_numpy(state.units.hash_keys(np.arange(len(state.units))).view(np.int64))


Measured = TypeVar("Measured")


def measure_populations(
    fold: LayerFold, populations: Sequence[str], measure: Callable[[tuple[int, ...]], Measured]
) -> dict[str, Measured]:
    """Call `measure` with the cells of each population; populations that hold the same vectors share one call."""
    by_cells: dict[tuple[int, ...], Measured] = {}
    by_population: dict[str, Measured] = {}
    for population in populations:
        cells = _held_cells(fold, population)
        if cells not in by_cells:
            by_cells[cells] = measure(cells)
        by_population[population] = by_cells[cells]
    return by_population


def _cells_to_solve(fold: LayerFold, populations: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the cells of each population that has more vectors than coordinates."""
    if fold.wide:
        return []
    different = dict.fromkeys(_held_cells(fold, population) for population in populations)
    return [cells for cells in different if fold.scatter.needs_matrix(cells)]


def _held_cells(fold: LayerFold, population: str) -> tuple[int, ...]:
    return tuple(cell for cell in POPULATIONS[population] if fold.holds(cell)) or (0,)


def _workers(state: State, layers: Sequence[Layer], spare: int) -> int:
    """Return how many layers to measure at once: one per thread, as far as copies of their sums fit in memory."""
    folds = [state.folds[layer.index] for layer in layers]
    largest = max((table.stored_sum.nbytes for fold in folds for table in fold.moments.tables), default=0)
    copy = max(largest * (1 if all(fold.contextuality is None for fold in folds) else 2), 1)
    return max(min(torch.get_num_threads(), len(layers), COPIES + spare // copy), 1)


def _layers(rows: list[dict[str, Any]]) -> pd.DataFrame:
    # Column by column: DataFrame.astype takes ten times as long for a table of many columns and few rows.
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in LAYERS}
    for name in LAYERS:
        if name in INTEGERS:
            columns[name] = pd.array(columns[name], dtype="Int64")
        elif name not in ("layer_name", "population", "undefined"):
            columns[name] = np.array(columns[name], dtype=np.float64)
    return pd.DataFrame(columns)


def _token_rows(layer: Layer, found: Sequence[tuple[str, MeasuredLayer]], names: pd.Series) -> pd.DataFrame:
    """Return the rows of a layer and all populations; `names` are the units' keys by code."""
    numbers = [
        (one.n, *one.units, *unbiased(one.n, one.units.m, one.units.v), one.similarity, *one.clustered)
        for _, one in found
    ]
    codes = np.concatenate([np.zeros(0, dtype=np.int64), *(one.codes for _, one in found)])
    populations = pd.Series([name for name, _ in found], dtype="str")
    columns = (
        np.full(len(codes), layer.index),
        populations.take(np.repeat(np.arange(len(found)), [len(one.codes) for _, one in found])).array,
        names.take(codes).array,
        *(np.concatenate(column) for column in zip(*numbers, strict=True)),
    )
    return pd.DataFrame(dict(zip(TOKENS, columns, strict=True)), copy=False)


def _units(state: State, seen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pd.DataFrame:
    rows = [
        (encodable(unit.key), code, unit.id, encodable(unit.text), unit.special, unit.tokens)
        for code, unit in enumerate(state.units.known)
        if code < len(seen) and seen[code]
    ]
    frame = pd.DataFrame(rows, columns=UNITS)
    return frame.astype({"row": "int64", "id": "Int64", "special": "bool", "tokens_per_unit": "float64"})


def _all_undefined(reason: str) -> str:
    import json

    columns = [column for column in LAYERS[4:] if column != "undefined"]
    return json.dumps(dict.fromkeys(columns, reason))


def nonfinite(layers: pd.DataFrame, populations: Sequence[str]) -> int:
    """Return the number of NaN or infinite states that were excluded, over all layers of the first population."""
    return int(layers.loc[layers["population"] == populations[0], "nonfinite"].fillna(0).sum())


def _no_finite_states(layer: Layer, nonfinite: int) -> str:
    return (
        f"Layer {layer.index} ({layer.name}) has no finite state: all {nonfinite:,} are NaN or infinite. "
        "If the model runs in half precision, which overflows in some models, use --dtype float32 or bfloat16; "
        "otherwise check its weights."
    )
