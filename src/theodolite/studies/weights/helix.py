"""The helix of positions: their path in three dimensions, and the period at which it turns."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.periodicity import Period, fisher_g, leading_scores, period_of_path, winding

Array = NDArray[np.float64]
MOST = 1024
"""Positions that are looked at: the test makes 199 tables of the same size."""
COMPONENTS = 10
SIGNIFICANT = 0.05


def helix_tables(rows: Array, trained: int, seed: int) -> dict[str, pd.DataFrame]:
    """Return the path of the trained positions after the first, its components, its spectrum and its period.

    Position 0 is left out as in the thesis: its row is that of the special first token, and unlike all others.
    """
    kept = rows[1 : min(trained, MOST + 1)]
    if len(kept) < 2 or not np.isfinite(kept).all():
        return _empty(f"{len(kept)} positions, not all of them finite" if len(kept) > 1 else "too few positions")
    scores, shares = leading_scores(kept, COMPONENTS)
    period, spectrum, null = period_of_path(kept, seed)
    positions = np.arange(1, len(kept) + 1)
    path = {f"pc{number + 1}": scores[:, number] for number in range(min(3, scores.shape[1]))}
    frequency = np.arange(len(spectrum)) / len(kept)
    return {
        "position_path": pd.DataFrame({"position": positions, **path}),
        "position_components": _components(scores, shares),
        "position_spectrum": pd.DataFrame({"frequency": frequency, "power": spectrum, "without_period": null}),
        "position_helix": _helix(period, scores[:, :3], shares[:3], len(kept), seed),
    }


def _components(scores: Array, shares: Array) -> pd.DataFrame:
    """Return each component's share, the period of its highest peak, and Fisher's test against white noise."""
    rows = []
    for number, (series, share) in enumerate(zip(scores.T, shares, strict=True), 1):
        power = np.square(np.abs(np.fft.rfft(series - series.mean())))[1:]
        g, p = fisher_g(series)
        period = len(series) / (power.argmax() + 1) if len(power) and g == g else np.nan
        rows.append({"component": number, "share": share, "period": period, "fisher_g": g, "fisher_p": p})
    return pd.DataFrame(rows).assign(cumulative=np.cumsum(shares))


def _helix(period: Period, scores: Array, shares: Array, rows: int, seed: int) -> pd.DataFrame:
    """Return one row: the period, its significance, and whether the path goes round at it."""
    row = period._asdict() | {"positions": rows, "seed": seed, "share": shares.sum()}
    row |= {"plane": None, "turns": np.nan, "steps_per_turn": np.nan, "quarter": np.nan}
    if np.isfinite(period.period) and scores.shape[1] > 1:
        plane, turns, quarter = winding(scores, period.period)
        row |= {"plane": f"{plane[0] + 1}, {plane[1] + 1}", "turns": turns, "quarter": quarter}
        row["steps_per_turn"] = (rows - 1) / turns if turns > 0 else np.nan
    significant = row["p"] < SIGNIFICANT and period.reason is None
    return pd.DataFrame([row | {"significant": bool(significant)}])


def _empty(reason: str) -> dict[str, pd.DataFrame]:
    nothing = np.empty((0, 3))
    return {
        "position_path": pd.DataFrame(nothing, columns=["pc1", "pc2", "pc3"]).assign(position=[]),
        "position_components": _components(np.empty((0, 0)), np.empty(0)),
        "position_spectrum": pd.DataFrame(nothing, columns=["frequency", "power", "without_period"]),
        "position_helix": _helix(Period(reason=reason), nothing, np.full(3, np.nan), 0, 0),
    }
