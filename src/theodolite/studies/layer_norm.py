"""Appendix I: Q of states that leave a norm, as gamma and beta predict it, against Q as measured.

A norm gives x = gamma z + beta, so that Q = sum gamma_i^2 E z_i^2 + 2 beta_i gamma_i E z_i + beta_i^2. The paper
takes every E z_i for 0 and every E z_i^2 for 1, which leaves |gamma|^2 + |beta|^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed

NO_NORM = "the state leaves no norm"
NO_VECTORS = "no vector belongs to this population"
TINY = 1e-6
"""A gamma_i below this share of the largest says nothing of z_i."""
BIN = 0.5
"""Units are put into bins of half a decade of n."""
FEWEST = 3
"""A bin with fewer units has no spread."""
TERMS = (
    "gamma2 beta2 predicted_q dropped_square dropped_mean z_mean_rms z_square_sd z_square_max tiny_gammas unseen"
).split()


def predictions(survey: Surveyed, population: str = "all") -> pd.DataFrame:
    """Return a row per layer: Q predicted and measured, and the two terms between them.

    `dropped_square` is sum gamma_i^2 (E z_i^2 - 1), `dropped_mean` 2 sum beta_i gamma_i E z_i: with them the
    prediction is Q. `z_mean_rms`, `z_square_sd` and `z_square_max` say over coordinates how far E z_i is from 0
    and E z_i^2 from 1. Coordinates with a gamma next to 0 (`tiny_gammas` of them) are not among these; `unseen` is
    their share of all z^2, told by what the others leave of it. `reason` says why a layer has none of it.
    """
    measured = survey.layers[survey.layers["population"] == population].set_index("layer")["q"]
    rows: list[dict[str, Any]] = []
    for layer, name in survey.layer_names.items():
        found = coordinates(survey, layer, population)
        row: dict[str, Any] = {"survey": survey.model, "layer": layer, "layer_name": name}
        row |= {"population": population, "norm": None, **dict.fromkeys(TERMS, np.nan)}
        row |= {"measured_q": float(measured.get(layer, np.nan)), "ratio": np.nan, "reason": NO_NORM}
        if len(found):
            row |= _terms(found) | _z(found, whole=survey.facts["units"] != "word")
            row["norm"] = found["kind"].iloc[0]
            row["ratio"] = row["measured_q"] / row["predicted_q"] if row["predicted_q"] > 0 else np.nan
            row["reason"] = "" if found["mu_i"].notna().all() else NO_VECTORS
        rows.append(row)
    return pd.DataFrame(rows)


def coordinates(survey: Surveyed, layer: int, population: str = "all") -> pd.DataFrame:
    """Return a row per coordinate of a layer that leaves a norm: gamma, beta, mu_i, v_i, E z_i, E z_i^2.

    z_i = (x_i - beta_i)/gamma_i is null where gamma_i is next to 0. No rows where the state leaves no norm.
    """
    norms, measured = survey.tables["layer_norms"], survey.tables["coordinates"]
    norm = norms[norms["layer"] == layer].drop(columns="layer")
    rows = measured[(measured["layer"] == layer) & (measured["population"] == population)]
    table = norm.merge(rows[["coordinate", "mu_i", "v_i"]], on="coordinate", how="left")
    gamma = table["gamma"].to_numpy(np.float64)
    seen = np.where(np.abs(gamma) > TINY * np.abs(gamma).max(initial=0.0), gamma, np.nan)
    away = (table["mu_i"] - table["beta"]).to_numpy(np.float64)
    return table.assign(z_mean=away / seen, z_square=(table["v_i"] + away**2) / seen**2)


def spread(survey: Surveyed, layer: int, choice: Choice) -> pd.DataFrame:
    """Return how far Q(X_t) spreads over units by how often they occur: a row per bin of log10 n.

    `n` is the units' median. `root_n` is the spread of the first bin that has one, falling as n^(-1/2): what the
    paper's appendix expects if nothing but the number of occurrences told units apart.
    """
    table = points(survey, layer, choice.filtered("all"))
    used = table[table["used"]]
    bins = np.floor(used["log10_n"].to_numpy(np.float64) / BIN + 1e-9).astype(int)
    rows = []
    for number in range(int(bins.max()) + 1 if len(bins) else 0):
        inside = used[bins == number]
        q = inside["q"].to_numpy(np.float64)
        told = len(q) >= FEWEST
        rows.append(
            {
                "layer": layer,
                "low": BIN * number,
                "high": BIN * (number + 1),
                "units": len(q),
                "n": float(inside["n"].median()) if len(q) else np.nan,
                "q_mean": float(q.mean()) if told else np.nan,
                "q_sd": float(q.std()) if told else np.nan,
            }
        )
    result = pd.DataFrame(rows, columns="layer low high units n q_mean q_sd".split())
    known = result[result["q_sd"].notna()]
    first = known.iloc[0] if len(known) else None
    result["root_n"] = np.nan if first is None else first["q_sd"] * np.sqrt(first["n"] / result["n"])
    return result


def layers_with_norms(survey: Surveyed) -> list[int]:
    """Return the surveyed layers whose states leave a norm."""
    known = set(survey.tables["layer_norms"]["layer"])
    return [layer for layer in survey.layer_names if layer in known]


def _terms(table: pd.DataFrame) -> dict[str, float]:
    """Return the prediction and what it drops, from gamma, beta, mu and v alone: nothing is divided by gamma."""
    gamma, beta, mean, v = (table[name].to_numpy(np.float64) for name in ("gamma", "beta", "mu_i", "v_i"))
    gamma2, beta2 = float(gamma @ gamma), float(beta @ beta)
    return {
        "gamma2": gamma2,
        "beta2": beta2,
        "predicted_q": gamma2 + beta2,
        "dropped_square": float((v + np.square(mean - beta)).sum()) - gamma2,
        "dropped_mean": float(2 * beta @ (mean - beta)),
    }


def _z(table: pd.DataFrame, *, whole: bool) -> dict[str, float]:
    """Say how far E z_i is from 0 and E z_i^2 from 1; `whole`: vectors are as they left the norm, |z|^2 = dim."""
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
        "unseen": unseen if whole else np.nan,
    }
