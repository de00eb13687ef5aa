"""Position embeddings: similarity by distance, untrained rows and the helix; rotary or relative positions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.measures.laboratories.periodicity import (
    Period,
    Winding,
    fisher_g,
    leading_scores,
    period_changes,
    period_of_path,
    winding,
)
from theodolite.measures.laboratories.positions import (
    LEVEL,
    PREVIOUS_ROWS,
    Tail,
    predicted_shares,
    rotary_similarity,
    untrained_tail,
)
from theodolite.studies.weights.model_tables import RELATIVE, ROTARY, ModelTables

Array = NDArray[np.float64]
MAX_POSITIONS = 1024
"""Maximum number of positions in the test of a period, which generates up to 999 tables of the same size."""
COMPONENTS = 10
SIGNIFICANT = 0.05
ROTARY_DISTANCES = 1024
BIAS_DISTANCES = 128
BUCKETS = "_relative_position_bucket"
LAGS = 128
FIRST_POSITIONS = 10
"""Number of positions after position 0 that are compared with the next 128."""
HEAT_MAP_SIZE = 512
"""Maximum number of rows and columns of a heat map; of larger tables every second, third, ... is kept."""


def helix_tables(rows: Array, trained: int, seed: int) -> dict[str, pd.DataFrame]:
    """Return the path of the trained positions after the first, its components, its spectrum and its period.

    Position 0 is excluded as in the thesis: it always holds the special first token, and differs from all others.
    """
    kept = rows[1 : min(trained, MAX_POSITIONS + 1)]
    if len(kept) < 2 or not np.isfinite(kept).all():
        return _empty(f"not all of the {len(kept)} positions are finite" if len(kept) > 1 else "too few positions")
    scores, shares = leading_scores(kept, COMPONENTS)
    period, spectrum, null = period_of_path(kept, seed)
    is_wave = np.isfinite(period.period) and scores.shape[1] > 1
    turning = winding(scores[:, :3], period.period) if is_wave else None
    significant = period.reason is None and period.p < SIGNIFICANT
    changes = period_changes(turning.phase, seed) if turning is not None and significant else []
    positions = np.arange(1, len(kept) + 1)
    path: dict[str, Any] = {f"pc{number + 1}": scores[:, number] for number in range(min(3, scores.shape[1]))}
    path["phase"] = np.nan if turning is None else turning.phase
    path["local_period"] = np.nan if turning is None else turning.period
    frequency = np.arange(len(spectrum)) / len(kept)
    return {
        "position_path": pd.DataFrame({"position": positions, **path}),
        "position_components": _components(scores, shares),
        "position_spectrum": pd.DataFrame({"frequency": frequency, "power": spectrum, "without_period": null}),
        "position_periods": _periods(turning, changes),
        "position_helix": _helix(period, turning, changes, len(kept), seed).assign(
            share=shares[:3].sum(), significant=significant
        ),
    }


def _periods(turning: Winding | None, changes: list[int]) -> pd.DataFrame:
    """Return one row per part of the path between changes of the period: first, last, turns, period."""
    rows = []
    if turning is not None and np.isfinite(turning.phase).all():
        ends = [0, *changes, len(turning.phase) - 1]
        for begin, end in pairwise(ends):
            turns = turning.phase[end] - turning.phase[begin]
            period = (end - begin) / turns if turns > 0 else np.nan
            rows.append({"first": begin + 1, "last": end + 1, "turns": turns, "period": period})
    return pd.DataFrame(rows, columns=["first", "last", "turns", "period"])


def _components(scores: Array, shares: Array) -> pd.DataFrame:
    """Return the share of each component, the period of its highest peak, and Fisher's test for white noise."""
    rows = []
    for number, (series, share) in enumerate(zip(scores.T, shares, strict=True), 1):
        power = np.square(np.abs(np.fft.rfft(series - series.mean())))[1:]
        g, p = fisher_g(series)
        period = len(series) / (power.argmax() + 1) if len(power) and g == g else np.nan
        rows.append({"component": number, "share": share, "period": period, "fisher_g": g, "fisher_p": p})
    return pd.DataFrame(rows).assign(cumulative=np.cumsum(shares))


def _helix(period: Period, turning: Winding | None, changes: list[int], rows: int, seed: int) -> pd.DataFrame:
    """Return one row: the period, its p-value, the turns of the path, and the positions at which it changes."""
    row: dict[str, Any] = period._asdict() | {"positions": rows, "seed": seed}
    row |= {"plane": None, "turns": np.nan, "steps_per_turn": np.nan, "quarter": np.nan}
    if turning is not None:
        turns = float(turning.phase[-1])
        row |= {"plane": f"{turning.plane[0] + 1}, {turning.plane[1] + 1}", "turns": turns}
        row |= {"quarter": turning.quarter, "steps_per_turn": (rows - 1) / turns if turns > 0 else np.nan}
    row["changes"] = ", ".join(str(change + 1) for change in changes)
    return pd.DataFrame([row])


def _empty(reason: str) -> dict[str, pd.DataFrame]:
    empty = np.empty((0, 3))
    return {
        "position_path": pd.DataFrame(empty, columns=["pc1", "pc2", "pc3"]).assign(
            position=[], phase=[], local_period=[]
        ),
        "position_components": _components(np.empty((0, 0)), np.empty(0)),
        "position_spectrum": pd.DataFrame(empty, columns=["frequency", "power", "without_period"]),
        "position_periods": _periods(None, []),
        "position_helix": _helix(Period(reason=reason), None, [], 0, 0).assign(share=np.nan, significant=False),
    }


def other_position_tables(tables: ModelTables) -> dict[str, pd.DataFrame]:
    """Return position_rotary or position_bias; an empty dictionary for a model that has neither."""
    if tables.position_kind == ROTARY:
        return {"position_rotary": rotary_curves(tables.model)}
    if tables.position_kind == RELATIVE:
        return {"position_bias": relative_bias(tables.model, tables.names["relative"])}
    return {}


def rotary_curves(model: Any) -> pd.DataFrame:
    """Return the similarity of two positions under rotation by their distance: frequencies, distance, similarity.

    A model with different rotations by layer (Gemma 3) has several curves; equal ones are reported once.
    """
    curves: dict[bytes, tuple[str, Array]] = {}
    for name, theta in rotary_frequencies(model).items():
        curves.setdefault(theta.tobytes(), (name, theta))
    distances = np.arange(ROTARY_DISTANCES + 1)
    frames = [
        pd.DataFrame(
            {
                "frequencies": name,
                "planes": len(theta),
                "distance": distances,
                "similarity": rotary_similarity(theta, distances.astype(np.float64)),
            }
        )
        for name, theta in curves.values()
    ]
    names = ["frequencies", "planes", "distance", "similarity"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)


def rotary_frequencies(model: Any) -> dict[str, Array]:
    """Return the rotary frequencies of a model by the name of the buffer; if it has none, those of its config."""
    buffers = {
        name: buffer.detach().double().cpu().numpy()
        for name, buffer in model.named_buffers()
        if name.endswith("inv_freq") and "original" not in name and buffer.ndim == 1
    }
    if buffers:
        return buffers
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    base = rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0
    width = getattr(config, "rotary_dim", None) or getattr(config, "head_dim", None)
    width = width or config.hidden_size // config.num_attention_heads
    return {"config": float(base) ** (-np.arange(0, width, 2) / width)}


def relative_bias(model: Any, name: str) -> pd.DataFrame:
    """Return the learned bias by distance: table, head, bucket, distance (key minus query), bias.

    If the model has no function for its buckets (T5 has one), the bias is reported by bucket and distance is null.
    """
    frames = []
    for path, module in model.named_modules():
        table, bucket = getattr(module, "relative_attention_bias", None), getattr(module, BUCKETS, None)
        if isinstance(table, torch.nn.Embedding) and bucket is not None:
            frames.append(_by_distance(f"{path}.relative_attention_bias.weight", module, table.weight, bucket))
    if not frames:
        frames.append(_by_bucket(name, dict(model.named_parameters())[name]))
    return pd.concat(frames, ignore_index=True)


def _by_distance(name: str, module: Any, weight: torch.Tensor, bucket: Any) -> pd.DataFrame:
    causal = bool(getattr(module, "is_decoder", False))
    distance = torch.arange(-BIAS_DISTANCES, 1 if causal else BIAS_DISTANCES + 1)
    rows = bucket(
        distance,
        bidirectional=not causal,
        num_buckets=module.relative_attention_num_buckets,
        max_distance=module.relative_attention_max_distance,
    )
    return _bias_table(name, weight[rows], rows.numpy(), distance.numpy())


def _by_bucket(name: str, weight: torch.Tensor) -> pd.DataFrame:
    return _bias_table(name, weight, np.arange(len(weight)), None)


def _bias_table(name: str, bias: torch.Tensor, buckets: Any, distance: Any) -> pd.DataFrame:
    values = bias.detach().double().cpu().numpy()
    heads = values.shape[1]
    far = np.repeat(distance, heads) if distance is not None else None
    frame = {
        "table": name,
        "head": np.tile(np.arange(heads), len(values)),
        "bucket": np.repeat(buckets, heads),
        "distance": pd.array(far if far is not None else [None] * values.size, dtype="Int64"),
        "bias": values.ravel(),
    }
    return pd.DataFrame(frame)


def position_tables(tables: ModelTables, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return the tables on positions by name.

    position_rows, position_tail, position_values, position_cosines, position_first, position_relative,
    position_components, position_path, position_spectrum, position_periods, position_helix; for a model without
    a position table position_rotary or position_bias.
    """
    if tables.positions is None:
        return other_position_tables(tables)
    return tables_from_rows(tables.positions.double().numpy(), seed)


def tables_from_rows(rows: Array, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return the tables of positions given as rows. (positions, dim)"""
    units = unit_rows(rows)
    shares, p = predicted_shares(rows)
    tail = untrained_tail(rows, shares, p)
    trained = tail.first or len(rows)  # a table that is untrained from the start is used completely
    step = -(-len(rows) // HEAT_MAP_SIZE)
    return {
        "position_rows": _row_table(rows, units, shares, p, tail),
        "position_tail": _tail_table(tail, len(rows)),
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
    """Return the distribution of cos(x_i, x_(i+k)) over i for every distance k, and that of sinusoids. (n, dim)"""
    planes = 10_000.0 ** (-2 * np.arange(dim // 2) / dim)
    rows = []
    for lag in range(min(lags, len(units) - 1) + 1):
        cosines = (units[: len(units) - lag] * units[lag:]).sum(axis=1)
        known = cosines[np.isfinite(cosines)]
        low, middle, high = np.quantile(known, [0.05, 0.5, 0.95]) if len(known) else (np.nan,) * 3
        mean = float(known.mean()) if len(known) else np.nan
        rows.append({"lag": lag, "n": len(known), "mean": mean, "p05": low, "median": middle, "p95": high})
    frame = pd.DataFrame(rows, columns=["lag", "n", "mean", "p05", "median", "p95"])
    frame["sinusoid"] = rotary_similarity(planes, frame["lag"].to_numpy(np.float64)) if dim > 1 else np.nan
    return frame


def first_positions(units: Array, count: int = FIRST_POSITIONS, lags: int = LAGS) -> pd.DataFrame:
    """Return the cosines of positions 1, 2, ... with positions up to 128 later: position, other, lag, cosine."""
    frames = []
    for position in range(1, min(count, len(units) - 1) + 1):
        others = np.arange(1, min(position + lags, len(units) - 1) + 1)
        cosines = units[others] @ units[position]
        lag = others - position
        frames.append(pd.DataFrame({"position": position, "other": others, "lag": lag, "cosine": cosines}))
    names = ["position", "other", "lag", "cosine"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)


def _row_table(rows: Array, units: Array, shares: Array, p: Array, tail: Tail) -> pd.DataFrame:
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


def _tail_table(tail: Tail, positions: int) -> pd.DataFrame:
    """Return one row: the result and the settings of the test for an untrained tail."""
    first = pd.array([tail.first], dtype="Int64")
    row = tail._replace(first=None)._asdict() | {"positions": positions, "before": PREVIOUS_ROWS, "level": LEVEL}
    return pd.DataFrame([row]).assign(first=first)


def _values(rows: Array, step: int) -> pd.DataFrame:
    across = -(-rows.shape[1] // HEAT_MAP_SIZE)
    kept = rows[::step, ::across]
    position, coordinate = np.indices(kept.shape)
    frame = {"position": position.ravel() * step, "coordinate": coordinate.ravel() * across}
    return pd.DataFrame(frame | {"value": kept.ravel().astype(np.float32)})


def _cosines(units: Array, step: int) -> pd.DataFrame:
    kept = units[::step]
    position, other = np.indices((len(kept), len(kept)))
    cosines = (kept @ kept.T).ravel().astype(np.float32)
    return pd.DataFrame({"position": position.ravel() * step, "other": other.ravel() * step, "cosine": cosines})
