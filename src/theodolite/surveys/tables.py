"""From sums to tables: layers, tokens, units, coordinates, scales and spectra, as data frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError
from theodolite.measures.decomposition import UnitMoments, unbiased
from theodolite.sources.layers import Layer
from theodolite.sources.units import encodable
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.surveys import contextual
from theodolite.surveys.coordinates import coordinate_rows, joined
from theodolite.surveys.curves import curves
from theodolite.surveys.rows import layer_row
from theodolite.surveys.shape import ROGUE, SHAPE, Shape, shape_of
from theodolite.surveys.shape import WHOLE as WHOLE_SHAPE
from theodolite.surveys.side_by_side import side_by_side
from theodolite.surveys.state import State
from theodolite.surveys.there import Cells, beside_others, sums_there
from theodolite.surveys.unit_sets import COUNTS, SET_COLUMNS

LAYERS = (
    "layer layer_name library_index population n types dim q m v v_within v_between "
    "filtered_q filtered_m filtered_v filtered_v_within filtered_v_between units_used "
    "text_q text_m text_v text_v_within text_v_between text_units_used "
    "unfiltered_text_q unfiltered_text_m unfiltered_text_v unfiltered_text_v_within unfiltered_text_v_between "
    "unfiltered_text_units_used "
    "mean_cosine anisotropy_svd participation_ratio effective_rank iso_score q_cv tradeoff_slope tradeoff_r2 "
    "twonn twonn_se twonn_n norm_min norm_p01 norm_p05 norm_p25 norm_p50 norm_p75 norm_p95 norm_p99 norm_max "
    "zero nonfinite massive sample_duplicates "
    "q_se m_se v_se m_of_q_se mean_cosine_se q_cv_se tradeoff_slope_se tradeoff_r2_se"
).split()
LAYERS += [column for column in SET_COLUMNS if column not in LAYERS]
LAYERS += [column for column in (*ROGUE, *SHAPE) if column not in LAYERS]
LAYERS += [*contextual.REASONS, *contextual.COUNTS, "undefined"]
TOKENS = "layer population unit n q m v m_unbiased v_unbiased self_similarity".split()
UNITS = "unit row id text special tokens_per_unit".split()
WHOLE = "layer library_index n types dim twonn_n zero nonfinite massive sample_duplicates".split()
WHOLE += [*COUNTS.values(), *contextual.COUNTS, *WHOLE_SHAPE]


@dataclass(frozen=True)
class Tables:
    """The finished tables of a survey."""

    layers: pd.DataFrame
    tokens: pd.DataFrame
    units: pd.DataFrame
    coordinates: pd.DataFrame
    scales: pd.DataFrame
    spectra: pd.DataFrame


COPIES = 3
"""How many copies of one layer's sums by unit there may be at once; `memory` counts with as many."""
BESIDE_DEVICE = 6
"""Layers measured at once with a device: more stand in each other's way, at the interpreter and there."""


@dataclass(frozen=True)
class Measured:
    """What is kept of one layer's population: a row, and by unit the code, n, Q, M and V, and self-similarity."""

    row: dict[str, Any]
    codes: NDArray[np.int64]
    n: NDArray[np.int64]
    units: UnitMoments
    similarity: NDArray[np.float64]
    by_coordinate: pd.DataFrame
    shape: Shape


def make_tables(
    state: State,
    layers: Sequence[Layer],
    populations: Sequence[str],
    *,
    lost: dict[str, str] | None = None,
    told: Callable[[str], None] | None = None,
    device: str | None = None,
    workers: int | None = None,
    spare: int = 0,
    left: dict[int, Cells] | None = None,
) -> Tables:
    """Read everything off the state. `lost` names populations that cannot be told, with the reason.

    With a `device`, passes over the sums by unit and over the sample are made there. Layers are measured side by
    side, as many as torch may use threads or as `workers` says; `spare` bytes may go into copies of their sums.
    What was `left` there of a layer (`left_there`) is taken out and let go when the layer has been measured.
    """
    rows, tokens, coordinates, seen = [], [], [], np.zeros(len(state.units), dtype=bool)
    scales, spectra = [], []
    names = pd.Series([encodable(unit.key) for unit in state.units.known])
    special = [code for code, unit in enumerate(state.units.known) if unit.special]
    wanted = [population for population in populations if population not in (lost or {})]

    def measure(layer: Layer) -> dict[str, Measured]:
        with_units = layer.units and state.units.kind != "none"
        of = (left or {}).pop(layer.index, None)
        with beside_others(device):
            return _measured(state.folds[layer.index], wanted, with_units, special, device, of)

    workers = workers or min(_workers(state, layers, spare), len(layers) if device is None else BESIDE_DEVICE)
    with side_by_side(measure, layers, workers) as waits:
        for layer, found in zip(layers, waits, strict=True):
            with_units = layer.units and state.units.kind != "none"
            if told:
                told(f"measuring layer {layer.index} ({layer.name})")
            measured = found()
            for population in populations:
                head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
                head["population"] = population
                if population not in measured:
                    rows.append(head | {"undefined": _all_undefined((lost or {})[population])})
                    continue
                one = measured[population]
                if population == "all" and one.row["n"] == 0:
                    raise TheodoliteError(_nothing_left(layer, one.row["nonfinite"]))
                rows.append(head | one.row)
                coordinates.append((layer.index, population, one.by_coordinate))
                scales.append((layer.index, population, one.shape.scales))
                spectra.append((layer.index, population, one.shape.spectrum))
                if with_units:
                    seen[one.codes] = True
                    tokens.append((layer.index, population, one))
    kept = _layers(rows), _tokens(tokens, names), _units(state, seen), joined(coordinates)
    return Tables(*kept, curves("scales", scales), curves("spectra", spectra))


def _measured(
    fold: LayerFold,
    populations: Sequence[str],
    with_units: bool,
    special: Sequence[int],
    device: str | None,
    left: Cells | None,
) -> dict[str, Measured]:
    """Measure one layer's populations. Where no position is massive, say, two are the same vectors, met once."""
    measured: dict[tuple[int, ...], Measured] = {}
    found = {}
    there = sums_there(fold, device, left)
    for population in populations:
        cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell)) or (0,)
        if cells not in measured:
            shape = shape_of(fold, cells, device)
            row, sums, units, similarity = layer_row(
                fold, cells, with_units=with_units, special=special, shape=shape, there=there
            )
            within = row["v_within"]
            by_coordinate = coordinate_rows(fold, cells, sums, v_within=within, with_units=with_units)
            # Not the sums, as large as all that the fold keeps of this layer; codes and n may be parts of them.
            codes, n = sums.codes.numpy().copy(), sums.n.numpy().copy()
            measured[cells] = Measured(row, codes, n, units, similarity, by_coordinate, shape)
            del sums
        found[population] = measured[cells]
    return found


def _workers(state: State, layers: Sequence[Layer], spare: int) -> int:
    """Return how many layers to measure at once: as many as there are threads, and as copies of sums have room."""
    folds = [state.folds[layer.index] for layer in layers]
    largest = max((table.held.nbytes for fold in folds for table in fold.moments.tables), default=0)
    copy = max(largest * (1 if all(fold.contextuality is None for fold in folds) else 2), 1)
    return max(min(torch.get_num_threads(), len(layers), COPIES + spare // copy), 1)


def _layers(rows: list[dict[str, object]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows).reindex(columns=LAYERS)
    numbers = [column for column in frame.columns if column not in ("layer_name", "population", "undefined")]
    return frame.astype({column: "Int64" if column in WHOLE else "float64" for column in numbers})


def _tokens(parts: list[tuple[int, str, Measured]], names: pd.Series) -> pd.DataFrame:
    """Return one table of all layers and populations; `names` are the units' keys by code."""
    if not parts:
        return pd.DataFrame({column: [] for column in TOKENS})
    layer, population, found = zip(*parts, strict=True)
    numbers = [(one.n, *one.units, *unbiased(one.n, one.units.m, one.units.v), one.similarity) for one in found]
    of = np.repeat(np.arange(len(parts)), [len(one.codes) for one in found])
    columns = (
        np.array(layer)[of],
        pd.Series(population).take(of).array,
        names.take(np.concatenate([one.codes for one in found])).array,  # a million rows and few names: once each
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

    told = [column for column in LAYERS[4:] if column != "undefined"]
    return json.dumps(dict.fromkeys(told, reason))


def nonfinite(layers: pd.DataFrame, populations: Sequence[str]) -> int:
    """Return how many NaN or infinite states all layers together left out, of the first population."""
    return int(layers.loc[layers["population"] == populations[0], "nonfinite"].fillna(0).sum())


def _nothing_left(layer: Layer, nonfinite: int) -> str:
    return (
        f"Layer {layer.index} ({layer.name}) has no finite state at all: {nonfinite:,} are NaN or infinite. "
        "Half precision overflows in some models: try --dtype float32 or bfloat16."
    )
