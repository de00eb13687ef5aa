"""Appendices H and I: where the norms of a block are, and Q after a norm as predicted from gamma and beta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.survey_data import SurveyData, make_labels

NO_NORM = "the state is not the output of a norm"
NO_VECTORS = "no vectors in this population"
TINY_GAMMA = 1e-6
"""Below this share of the largest gamma, z_i cannot be computed from x_i."""
BIN_WIDTH = 0.5
"""Width of bins of log10 n."""
MIN_BIN_SIZE = 3
"""Minimum number of units for the spread of a bin."""
TERMS = (
    "gamma2 beta2 predicted_q dropped_square dropped_mean z_mean_rms z_square_sd z_square_max tiny_gammas unseen"
).split()
PLACEMENT_LABELS = {
    "post": "Post-LN",
    "pre": "Pre-LN",
    "sandwich": "Sandwich-LN",
    "parallel": "Parallel, Pre-LN",
    "branch": "LN in the branch",
    "none": "no LN",
}
PLACEMENT_STEPS = {
    "post": "ATTN, RES, LN, FF, RES, LN",
    "pre": "(LN, ATTN), RES, (LN, FF), RES",
    "sandwich": "(LN, ATTN, LN), RES, (LN, FF, LN), RES",
    "parallel": "(LN, ATTN | FF), RES",
    "branch": "(ATTN, LN), RES, (FF, LN), RES",
    "none": "ATTN, RES, FF, RES",
}
"""Parts in brackets are in a branch beside the residual stream. RES adds the branch to the stream."""


def predict_q(survey: SurveyData, population: str = "all") -> pd.DataFrame:
    """Return one row per layer: Q predicted and measured, and the two terms that the prediction drops.

    A norm gives x = gamma z + beta, so Q = sum gamma_i^2 E z_i^2 + 2 beta_i gamma_i E z_i + beta_i^2. The paper
    assumes E z_i = 0 and E z_i^2 = 1, which leaves |gamma|^2 + |beta|^2. `dropped_square` is
    sum gamma_i^2 (E z_i^2 - 1) and `dropped_mean` is 2 sum beta_i gamma_i E z_i; adding both gives Q.
    `z_mean_rms`, `z_square_sd` and `z_square_max` measure over coordinates how far E z_i is from 0 and E z_i^2
    from 1. They exclude the `tiny_gammas` coordinates whose gamma is close to 0; `unseen` is the share of z^2 of
    those. `reason` states why the numbers of a layer are undefined.
    """
    measured = survey.layers[survey.layers["population"] == population].set_index("layer")["q"]
    rows: list[dict[str, Any]] = []
    for layer, name in survey.layer_names.items():
        found = normalised_coordinates(survey, layer, population)
        row: dict[str, Any] = {"survey": survey.model, "layer": layer, "layer_name": name}
        row |= {"population": population, "norm": None, **dict.fromkeys(TERMS, np.nan)}
        row |= {"measured_q": float(measured.get(layer, np.nan)), "ratio": np.nan, "reason": NO_NORM}
        if len(found):
            row |= _prediction_terms(found) | _normalised_moments(found, direct=survey.facts["units"] != "word")
            row["norm"] = found["kind"].iloc[0]
            row["ratio"] = row["measured_q"] / row["predicted_q"] if row["predicted_q"] > 0 else np.nan
            row["reason"] = "" if found["mu_i"].notna().all() else NO_VECTORS
        rows.append(row)
    return pd.DataFrame(rows)


def normalised_coordinates(survey: SurveyData, layer: int, population: str = "all") -> pd.DataFrame:
    """Return one row per coordinate of a layer after a norm: gamma, beta, mu_i, v_i, E z_i, E z_i^2.

    z_i = (x_i - beta_i)/gamma_i is null if gamma_i is close to 0. Empty if the layer is not the output of a norm.
    """
    norms, measured = survey.tables["layer_norms"], survey.tables["coordinates"]
    norm = norms[norms["layer"] == layer].drop(columns="layer")
    rows = measured[(measured["layer"] == layer) & (measured["population"] == population)]
    table = norm.merge(rows[["coordinate", "mu_i", "v_i"]], on="coordinate", how="left")
    gamma = table["gamma"].to_numpy(np.float64)
    seen = np.where(np.abs(gamma) > TINY_GAMMA * np.abs(gamma).max(initial=0.0), gamma, np.nan)
    shifted = (table["mu_i"] - table["beta"]).to_numpy(np.float64)
    return table.assign(z_mean=shifted / seen, z_square=(table["v_i"] + shifted**2) / seen**2)


def q_spread(survey: SurveyData, layer: int, choice: Choice) -> pd.DataFrame:
    """Return the spread of Q(X_t) over units by number of occurrences, one row per bin of log10 n.

    `n` is the median over the units. `root_n` extrapolates the spread of the first bin by n^(-1/2), as the paper
    expects if units differ only in their number of occurrences.
    """
    table = select_units(survey, layer, choice.with_filter("all"))
    used = table[table["used"]]
    bins = np.floor(used["log10_n"].to_numpy(np.float64) / BIN_WIDTH + 1e-9).astype(int)
    rows = []
    for number in range(int(bins.max()) + 1 if len(bins) else 0):
        inside = used[bins == number]
        q = inside["q"].to_numpy(np.float64)
        defined = len(q) >= MIN_BIN_SIZE
        rows.append(
            {
                "layer": layer,
                "low": BIN_WIDTH * number,
                "high": BIN_WIDTH * (number + 1),
                "units": len(q),
                "n": float(inside["n"].median()) if len(q) else np.nan,
                "q_mean": float(q.mean()) if defined else np.nan,
                "q_sd": float(q.std()) if defined else np.nan,
            }
        )
    result = pd.DataFrame(rows, columns="layer low high units n q_mean q_sd".split())
    known = result[result["q_sd"].notna()]
    first = known.iloc[0] if len(known) else None
    result["root_n"] = np.nan if first is None else first["q_sd"] * np.sqrt(first["n"] / result["n"])
    return result


def layers_with_norms(survey: SurveyData) -> list[int]:
    """Return the surveyed layers whose states are the output of a norm."""
    known = set(survey.tables["layer_norms"]["layer"])
    return [layer for layer in survey.layer_names if layer in known]


def _prediction_terms(table: pd.DataFrame) -> dict[str, float]:
    """Return the prediction and the dropped terms from gamma, beta, mu and v, without dividing by gamma."""
    gamma, beta, mean, v = (table[name].to_numpy(np.float64) for name in ("gamma", "beta", "mu_i", "v_i"))
    gamma2, beta2 = float(gamma @ gamma), float(beta @ beta)
    return {
        "gamma2": gamma2,
        "beta2": beta2,
        "predicted_q": gamma2 + beta2,
        "dropped_square": float((v + np.square(mean - beta)).sum()) - gamma2,
        "dropped_mean": float(2 * beta @ (mean - beta)),
    }


def _normalised_moments(table: pd.DataFrame, *, direct: bool) -> dict[str, float]:
    """Measure how far E z_i is from 0 and E z_i^2 from 1.

    `direct`: each vector is one output of the norm, not a mean over tokens, so that |z|^2 = dim.
    """
    known = table[np.isfinite(table["z_square"].to_numpy(np.float64))]
    if not len(known):
        return {}
    mean, square = (known[name].to_numpy(np.float64) for name in ("z_mean", "z_square"))
    tiny = len(table) - len(known)
    unseen = max(0.0, 1 - float(square.sum()) / len(table)) if tiny else 0.0
    return {
        "z_mean_rms": float(np.sqrt(np.square(mean).mean())),
        "z_square_sd": float(square.std()),
        "z_square_max": float(square.max()),
        "tiny_gammas": tiny,
        "unseen": unseen if direct else np.nan,
    }


def make_placement_table(surveys: Sequence[SurveyData]) -> pd.DataFrame:
    """Return one row per survey: class of the model, placement and kind of its norms, and the steps of a block.

    The placement was detected in the running model during the survey; it is null if that was not possible.
    """
    rows = []
    for survey, name in zip(surveys, make_labels(surveys), strict=True):
        model = survey.facts["model"]
        word = model["norm_placement"]
        kinds = sorted(set(survey.tables["layer_norms"]["kind"]))
        rows.append(
            {
                "survey": name,
                "architecture": str(model.get("architecture", "")),
                "placement": word,
                "label": PLACEMENT_LABELS.get(word, "unknown"),
                "norm": ", ".join(kinds) or None,
                "steps": PLACEMENT_STEPS.get(word, ""),
            }
        )
    return pd.DataFrame(rows)
