"""Does the drift of states precede the sharpening of attention? Half-way steps and lagged changes, per block."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.lead import MIN_PAIRS, HalfWay, decide_order, half_way, lagged_correlation
from theodolite.studies.anisotropy.layers import column_values
from theodolite.studies.series.averages import mean_over_layers
from theodolite.studies.series.series import ATTENTION
from theodolite.studies.survey_data import SurveyData

DRIFT = {"state_mean_norm": "the norm of the mean state", "state_cosine": "the mean cosine of states"}
SHARP = {
    "attention_max": "the largest attention weight",
    "attention_entropy_share": "the entropy of attention",
}
SHARPER = {"attention_max": 1, "attention_entropy_share": -1}
"""Sign of the change of each measure as attention gets sharper."""
LAG_STEPS = {"lag_minus": -1, "lag_none": 0, "lag_plus": 1}
MEAN = "mean over blocks"
COLUMNS = [
    *"population layer layer_name drift sharpness order".split(),
    *(
        f"{side}_{part}"
        for side in ("drift", "sharp")
        for part in ("half", "half_low", "half_high", "way", "peak")
    ),
    "ratio_way",
    *(f"{lag}{end}" for lag in LAG_STEPS for end in ("", "_low", "_high")),
    "pairs",
    "undefined",
]


def make_lead_table(survey: SurveyData) -> pd.DataFrame:
    """Return one row per population, block (and their mean), measure of drift and measure of sharpness."""
    table = survey.tables[ATTENTION]
    rows: list[dict[str, Any]] = []
    for population, of_population in table.groupby("population", sort=False):
        ordered = of_population.sort_values(["step", "layer"])
        steps = ordered["step"].unique().astype(np.float64)
        places = ordered.drop_duplicates("layer")
        heads: list[dict[str, Any]] = [{"layer": None, "layer_name": MEAN}]
        heads += [
            {"layer": int(layer), "layer_name": str(name)}
            for layer, name in zip(places["layer"], places["layer_name"], strict=True)
        ]
        curves = {measure: _curves(ordered, measure, len(steps)) for measure in (*DRIFT, *SHARP, "state_norm")}
        for at, head in enumerate(heads):
            for drift in DRIFT:
                for sharp in SHARP:
                    size = curves["state_norm"][at] if drift == "state_mean_norm" else None
                    compared = _compare_curves(steps, curves[drift][at], curves[sharp][at], size, SHARPER[sharp])
                    rows.append({"population": population, **head, "drift": drift, "sharpness": sharp} | compared)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({"layer": "Int64", "pairs": "Int64"})


Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def _curves(ordered: pd.DataFrame, measure: str, steps: int) -> list[Curve]:
    """Return values and errors over the steps, first of the mean over blocks, then of each block."""
    values = column_values(ordered, measure).reshape(steps, -1)
    errors = column_values(ordered, f"{measure}_se").reshape(steps, -1)
    mean, kept = mean_over_layers(values)
    mean_error = errors[:, kept].mean(axis=1) if kept.any() else np.full(steps, np.nan)
    return [(mean, mean_error), *((values[:, at], errors[:, at]) for at in range(values.shape[1]))]


def _compare_curves(
    steps: NDArray[np.float64], drift: Curve, sharp: Curve, size: Curve | None, sharper: int
) -> dict[str, Any]:
    """Compare two series; `size` is the mean norm if the drift is the norm of the mean."""
    halves = {"drift": half_way(steps, *drift), "sharp": half_way(steps, *sharp)}
    reasons = {f"{side}_half": half.reason for side, half in halves.items() if half.reason}
    ratio = None if size is None else _ratio_half_way(steps, drift, size)
    order, reason = decide_order(halves["drift"], halves["sharp"], ratio=ratio, sharper=sharper)
    row: dict[str, Any] = {"order": order, "ratio_way": np.nan if ratio is None else ratio.way}
    if reason:
        reasons["order"] = reason
    for side, half in halves.items():
        row |= {f"{side}_half": half.step, f"{side}_half_low": half.low, f"{side}_half_high": half.high}
        row |= {f"{side}_way": half.way, f"{side}_peak": half.peak}
    for name, lag in LAG_STEPS.items():
        found = lagged_correlation(drift[0], sharp[0], lag)
        row |= {name: found.coefficient, f"{name}_low": found.low, f"{name}_high": found.high}
        row["pairs"] = min(row.get("pairs", found.pairs), found.pairs)
        if found.reason:
            reasons[name] = found.reason
    return row | {"undefined": json.dumps(reasons) if reasons else None}


def _ratio_half_way(steps: NDArray[np.float64], drift: Curve, size: Curve) -> HalfWay:
    """Return the half-way point of the norm of the mean over the mean norm.

    Its relative error is at most the two relative errors together, since both come from the same vectors.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = drift[0] / size[0]
        return half_way(steps, ratio, ratio * np.hypot(drift[1] / drift[0], size[1] / size[0]))


def describe_leads(table: pd.DataFrame, population: str) -> list[str]:
    """Return sentences that summarise the table for one population."""
    rows = table[table["population"] == population]
    pairs = [rows[(rows["drift"] == drift) & (rows["sharpness"] == sharp)] for drift in DRIFT for sharp in SHARP]
    halves = [_half(DRIFT[drift], _mean(rows[rows["drift"] == drift]), "drift") for drift in DRIFT]
    halves += [_half(SHARP[sharp], _mean(rows[rows["sharpness"] == sharp]), "sharp") for sharp in SHARP]
    return [f"Half-way: {'; '.join(halves)}.", *map(_verdict, pairs), *_caution(rows)]


def _mean(rows: pd.DataFrame) -> pd.Series[Any]:
    return rows[rows["layer_name"] == MEAN].iloc[0]


def _half(what: str, row: pd.Series[Any], side: str) -> str:
    reasons = json.loads(row["undefined"]) if isinstance(row["undefined"], str) else {}
    if reasons.get(f"{side}_half"):
        return f"{what}: undefined ({reasons[f'{side}_half']})"
    step, low, high = (row[f"{side}_half{end}"] for end in ("", "_low", "_high"))
    peak = row[f"{side}_peak"]
    return f"{what} by step {step:,.0f} (between {low:,.0f} and {high:,.0f}; extreme at {peak:,.0f})"


def _verdict(rows: pd.DataFrame) -> str:
    """State which of the two comes first, in how many blocks, and how their changes correlate."""
    mean = _mean(rows)
    verdict = {
        "before": "the drift comes first",
        "after": "the sharpness comes first",
        "undecided": "the order is undecided",
    }[str(mean["order"])]
    blocks = rows[rows["layer_name"] != MEAN]["order"]
    counts = ", ".join(f"{int((blocks == word).sum())} {word}" for word in ("before", "after", "undecided"))
    reasons = json.loads(mean["undefined"]) if isinstance(mean["undefined"], str) else {}
    verdict += f", because {reasons['order']}" if "order" in reasons else ""
    what = f"{DRIFT[str(mean['drift'])]} against {SHARP[str(mean['sharpness'])]}"
    return f"{what[0].upper()}{what[1:]}: {verdict} (blocks: {counts}){_lag(mean)}."


def _lag(row: pd.Series[Any]) -> str:
    if np.isnan(row["lag_plus"]):
        return ""
    parts = [
        f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}] {where}"
        for name, where in (("lag_plus", "one step later"), ("lag_minus", "one step earlier"))
    ]
    return f"; correlation of their changes: {', '.join(parts)}"


def _caution(rows: pd.DataFrame) -> Sequence[str]:
    """State the limits of the comparison."""
    fewest = int(rows["pairs"].min()) if len(rows) else 0
    few = (
        [f"Lagged correlations are omitted: they require {MIN_PAIRS} pairs of changes (got {fewest})."]
        if fewest < MIN_PAIRS
        else []
    )
    return [
        *few,
        "An order between checkpoints of one run is not a causal effect: both may follow a third variable.",
    ]
