"""The table of positions: how alike positions are by their distance, which rows are untrained, and the helix."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.sinusoid import rotary_similarity
from theodolite.measures.untrained import BEFORE, LEVEL, Tail, foretold, untrained_tail
from theodolite.studies.weights.helix import helix_tables
from theodolite.studies.weights.no_position_table import instead_of_positions
from theodolite.studies.weights.tables import Tables

Array = NDArray[np.float64]
LAGS = 128
FIRST = 10
"""How many positions after position 0 are compared with the next 128, one by one."""
HEAT_MOST = 512
"""Rows and columns that a heat map holds at most; of larger tables every second, third, ... is kept."""


def position_tables(tables: Tables, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return what the table of positions holds, or what the model has in its place, by the name of the table.

    position_rows, position_tail, position_values, position_cosines, position_first, position_relative,
    position_components, position_path, position_spectrum, position_helix; without a table of positions
    position_rotary or position_bias.
    """
    if tables.positions is None:
        return instead_of_positions(tables)
    return tables_of_rows(tables.positions.double().numpy(), seed)


def tables_of_rows(rows: Array, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return the tables of positions given as rows. (positions, dim)"""
    units = unit_rows(rows)
    shares, p = foretold(rows)
    tail = untrained_tail(rows, shares, p)
    trained = tail.first or len(rows)  # a table that is untrained from the start is looked at whole
    step = -(-len(rows) // HEAT_MOST)
    return {
        "position_rows": _by_row(rows, units, shares, p, tail),
        "position_tail": _told(tail, len(rows)),
        "position_values": _values(rows, step),
        "position_cosines": _cosines(units, step),
        "position_first": first_positions(units),
        "position_relative": relative_similarity(units[1:trained], rows.shape[1]),
        **helix_tables(rows, trained, seed),
    }


def unit_rows(rows: Array) -> Array:
    """Return rows over their lengths; NaN where a row is 0 or not finite."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0)
    return np.asarray(np.divide(rows, lengths, out=np.full(rows.shape, np.nan), where=usable))


def relative_similarity(units: Array, dim: int, lags: int = LAGS) -> pd.DataFrame:
    """Return the spread of cos(x_i, x_(i+k)) over i for every distance k, and of sinusoids. (n, dim)"""
    planes = 10_000.0 ** (-2 * np.arange(dim // 2) / dim)
    found = []
    for lag in range(min(lags, len(units) - 1) + 1):
        cosines = (units[: len(units) - lag] * units[lag:]).sum(axis=1)
        known = cosines[np.isfinite(cosines)]
        low, middle, high = np.quantile(known, [0.05, 0.5, 0.95]) if len(known) else (np.nan,) * 3
        mean = float(known.mean()) if len(known) else np.nan
        found.append({"lag": lag, "n": len(known), "mean": mean, "p05": low, "median": middle, "p95": high})
    frame = pd.DataFrame(found, columns=["lag", "n", "mean", "p05", "median", "p95"])
    frame["sinusoid"] = rotary_similarity(planes, frame["lag"].to_numpy(np.float64)) if dim > 1 else np.nan
    return frame


def first_positions(units: Array, count: int = FIRST, lags: int = LAGS) -> pd.DataFrame:
    """Return the cosines of positions 1, 2, ... to all from 1 to 128 after: position, other, lag, cosine."""
    frames = []
    for position in range(1, min(count, len(units) - 1) + 1):
        others = np.arange(1, min(position + lags, len(units) - 1) + 1)
        cosines = units[others] @ units[position]
        lag = others - position
        frames.append(pd.DataFrame({"position": position, "other": others, "lag": lag, "cosine": cosines}))
    names = ["position", "other", "lag", "cosine"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)


def _by_row(rows: Array, units: Array, shares: Array, p: Array, tail: Tail) -> pd.DataFrame:
    next_one = np.append((units[:-1] * units[1:]).sum(axis=1), np.nan)
    numbers = np.arange(len(rows))
    return pd.DataFrame(
        {
            "position": numbers,
            "norm": np.linalg.norm(rows, axis=1),
            "next_cosine": next_one,
            "foretold": shares,
            "p": p,
            "untrained": numbers >= (len(rows) if tail.first is None else tail.first),
        }
    )


def _told(tail: Tail, positions: int) -> pd.DataFrame:
    """Return the test on one row: what was found, and by what."""
    first = pd.array([tail.first], dtype="Int64")
    rest = tail._replace(first=None)._asdict() | {"positions": positions, "before": BEFORE, "level": LEVEL}
    return pd.DataFrame([rest]).assign(first=first)


def _values(rows: Array, step: int) -> pd.DataFrame:
    across = -(-rows.shape[1] // HEAT_MOST)
    kept = rows[::step, ::across]
    position, coordinate = np.indices(kept.shape)
    frame = {"position": position.ravel() * step, "coordinate": coordinate.ravel() * across}
    return pd.DataFrame(frame | {"value": kept.ravel().astype(np.float32)})


def _cosines(units: Array, step: int) -> pd.DataFrame:
    kept = units[::step]
    position, other = np.indices((len(kept), len(kept)))
    cosines = (kept @ kept.T).ravel().astype(np.float32)
    return pd.DataFrame({"position": position.ravel() * step, "other": other.ravel() * step, "cosine": cosines})
