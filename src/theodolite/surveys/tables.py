"""From sums to tables: layers, tokens, units and coordinates, as data frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from theodolite.errors import TheodoliteError
from theodolite.measures.decomposition import unbiased
from theodolite.sources.layers import Layer
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.coordinates import coordinate_rows, joined
from theodolite.surveys.rows import Measured, layer_row
from theodolite.surveys.state import State

LAYERS = (
    "layer layer_name library_index population n types dim q m v v_within v_between "
    "filtered_q filtered_m filtered_v filtered_v_within filtered_v_between units_used "
    "mean_cosine anisotropy_svd participation_ratio effective_rank iso_score q_cv tradeoff_slope tradeoff_r2 "
    "twonn twonn_se twonn_n norm_min norm_p01 norm_p05 norm_p25 norm_p50 norm_p75 norm_p95 norm_p99 norm_max "
    "zero nonfinite massive sample_duplicates "
    "q_se m_se v_se mean_cosine_se q_cv_se tradeoff_slope_se tradeoff_r2_se undefined"
).split()
TOKENS = "layer population unit n q m v m_unbiased v_unbiased".split()
UNITS = "unit row id text special tokens_per_unit".split()
WHOLE = "layer library_index n types dim units_used twonn_n zero nonfinite massive sample_duplicates".split()


@dataclass(frozen=True)
class Tables:
    """The finished tables of a survey."""

    layers: pd.DataFrame
    tokens: pd.DataFrame
    units: pd.DataFrame
    coordinates: pd.DataFrame


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
    with_units = state.units.kind != "none"
    names = np.array([unit.key for unit in state.units.known], dtype=object)
    for layer in layers:
        fold = state.folds[layer.index]
        if told:
            told(f"measuring layer {layer.index} ({layer.name})")
        measured: dict[tuple[int, ...], tuple[Measured, pd.DataFrame]] = {}
        for population in populations:
            head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
            head["population"] = population
            if lost and population in lost:
                rows.append(head | {"undefined": _all_undefined(lost[population])})
                continue
            # Where no position is massive, say, two populations are the same vectors: measure them once.
            cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell)) or (0,)
            if cells not in measured:
                found = layer_row(fold, cells, with_units=with_units)
                within = found[0]["v_within"]
                by_coordinate = coordinate_rows(fold, cells, found[1], v_within=within, with_units=with_units)
                measured[cells] = found, by_coordinate
            (row, sums, units), by_coordinate = measured[cells]
            if population == "all" and row["n"] == 0:
                raise TheodoliteError(_nothing_left(layer, row["nonfinite"]))
            rows.append(head | row)
            coordinates.append((layer.index, population, by_coordinate))
            if with_units:
                codes, n = sums.codes.numpy(), sums.n.numpy()
                seen[codes] = True
                m_unbiased, v_unbiased = unbiased(n, units.m, units.v)
                columns = (layer.index, population, names[codes], n, *units, m_unbiased, v_unbiased)
                tokens.append(pd.DataFrame(dict(zip(TOKENS, columns, strict=True))))
    return Tables(_layers(rows), _tokens(tokens), _units(state, seen), joined(coordinates))


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
