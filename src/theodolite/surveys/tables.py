"""From sums to tables: layers, tokens, units, coordinates, scales and spectra, as data frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError
from theodolite.measures.decomposition import UnitMoments, unbiased
from theodolite.sources.layers import Layer
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.moments import UnitSums
from theodolite.surveys import contextual
from theodolite.surveys.coordinates import coordinate_rows, joined
from theodolite.surveys.curves import curves
from theodolite.surveys.rows import layer_row
from theodolite.surveys.shape import ROGUE, SHAPE, Shape, shape_of
from theodolite.surveys.shape import WHOLE as WHOLE_SHAPE
from theodolite.surveys.state import State
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

_Kept = tuple[dict[str, Any], NDArray[np.int64], NDArray[np.int64], UnitMoments, NDArray[np.float64]]
"""Of a population: its row, and by unit the code, n, Q, M and V, and self-similarity."""


@dataclass(frozen=True)
class Tables:
    """The finished tables of a survey."""

    layers: pd.DataFrame
    tokens: pd.DataFrame
    units: pd.DataFrame
    coordinates: pd.DataFrame
    scales: pd.DataFrame
    spectra: pd.DataFrame


def make_tables(
    state: State,
    layers: Sequence[Layer],
    populations: Sequence[str],
    *,
    lost: dict[str, str] | None = None,
    told: Callable[[str], None] | None = None,
) -> Tables:
    """Read everything off the state. `lost` names populations that cannot be told, with the reason."""
    rows, tokens, coordinates, seen = [], [], [], np.zeros(len(state.units), dtype=bool)
    scales, spectra = [], []
    names = np.array([unit.key for unit in state.units.known], dtype=object)
    special = [code for code, unit in enumerate(state.units.known) if unit.special]
    for layer in layers:
        fold = state.folds[layer.index]
        with_units = layer.units and state.units.kind != "none"
        if told:
            told(f"measuring layer {layer.index} ({layer.name})")
        measured: dict[tuple[int, ...], tuple[_Kept, pd.DataFrame, Shape]] = {}
        for population in populations:
            head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
            head["population"] = population
            if lost and population in lost:
                rows.append(head | {"undefined": _all_undefined(lost[population])})
                continue
            # Where no position is massive, say, two populations are the same vectors: measure them once.
            cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell)) or (0,)
            if cells not in measured:
                shape = shape_of(fold, cells)
                found = layer_row(fold, cells, with_units=with_units, special=special, shape=shape)
                within = found[0]["v_within"]
                by_coordinate = coordinate_rows(fold, cells, found[1], v_within=within, with_units=with_units)
                measured[cells] = _without_sums(*found), by_coordinate, shape
                del found  # with the sums, as large as all that the fold keeps of this layer: no two at once
            (row, codes, n, units, similarity), by_coordinate, shape = measured[cells]
            if population == "all" and row["n"] == 0:
                raise TheodoliteError(_nothing_left(layer, row["nonfinite"]))
            rows.append(head | row)
            coordinates.append((layer.index, population, by_coordinate))
            scales.append((layer.index, population, shape.scales))
            spectra.append((layer.index, population, shape.spectrum))
            if with_units:
                seen[codes] = True
                m_unbiased, v_unbiased = unbiased(n, units.m, units.v)
                columns = (layer.index, population, names[codes], n, *units, m_unbiased, v_unbiased, similarity)
                tokens.append(pd.DataFrame(dict(zip(TOKENS, columns, strict=True))))
    kept = _layers(rows), _tokens(tokens), _units(state, seen), joined(coordinates)
    return Tables(*kept, curves("scales", scales), curves("spectra", spectra))


def _without_sums(
    row: dict[str, Any], sums: UnitSums, units: UnitMoments, similarity: NDArray[np.float64]
) -> _Kept:
    return row, sums.codes.numpy(), sums.n.numpy(), units, similarity


def _layers(rows: list[dict[str, object]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows).reindex(columns=LAYERS)
    for column in frame.columns:
        if column in WHOLE:
            frame[column] = frame[column].astype("Int64")
        elif column not in ("layer_name", "population", "undefined"):
            frame[column] = frame[column].astype("float64")
    return frame


def _tokens(parts: list[pd.DataFrame]) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame({column: [] for column in TOKENS})
    return pd.concat(parts, ignore_index=True)


def _units(state: State, seen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pd.DataFrame:
    rows = [
        (unit.key, code, unit.id, unit.text, unit.special, unit.tokens)
        for code, unit in enumerate(state.units.known)
        if code < len(seen) and seen[code]
    ]
    frame = pd.DataFrame(rows, columns=UNITS)
    return frame.astype({"row": "int64", "id": "Int64", "special": "bool", "tokens_per_unit": "float64"})


def _all_undefined(reason: str) -> str:
    import json

    told = [column for column in LAYERS[4:] if column != "undefined"]
    return json.dumps(dict.fromkeys(told, reason))


def _nothing_left(layer: Layer, nonfinite: int) -> str:
    return (
        f"Layer {layer.index} ({layer.name}) has no finite state at all: {nonfinite:,} are NaN or infinite. "
        "Half precision overflows in some models: try --dtype float32 or bfloat16."
    )
