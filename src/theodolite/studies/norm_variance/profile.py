"""What is said of each layer: the makeup of Q, how little it varies over units, and the trade-off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.measures.tradeoff import coefficient_of_variation
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fit
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed

PARTS = ("q", "m", "v", "v_within", "v_between")
RATIOS = {
    "m_of_q": ("m", "q"),
    "v_of_q": ("v", "q"),
    "v_within_of_q": ("v_within", "q"),
    "v_between_of_q": ("v_between", "q"),
    "v_within_of_v": ("v_within", "v"),
    "v_between_of_v": ("v_between", "v"),
}
HEAD = "survey layer layer_name population".split()


def profile(survey: Surveyed, choice: Choice) -> pd.DataFrame:
    """Return a row per layer: Q, M, V, V_W, V_B of everything together, their ratios, and errors where known.

    They are over the units that pass the filter, special units among them: without the units' means, which the
    tables do not hold, V_B of fewer units cannot be told.
    """
    chosen = choice.filtered()
    rows = survey.layers[survey.layers["population"] == chosen.population].sort_values("layer")
    prefix = "filtered_" if chosen.filter == "frequent" else ""
    table = pd.DataFrame({part: rows[f"{prefix}{part}"].to_numpy(np.float64) for part in PARTS})
    for part in PARTS[:3]:  # by jackknife over groups of documents, whose sums know no filter
        errors = rows[f"{part}_se"].to_numpy(np.float64)
        table[f"{part}_se"] = errors if chosen.filter == "all" else np.full(len(rows), np.nan)
    for position, name in enumerate(HEAD[1:]):
        table.insert(position, name, rows[name].to_numpy())
    table.insert(0, "survey", survey.model)
    if chosen.variant == "unbiased":
        table = _unbiased(survey, table, chosen)
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, (part, whole) in RATIOS.items():
            table[name] = np.where(table[whole] > 0, table[part] / table[whole], np.nan)
    return table


def tradeoff(survey: Surveyed, choice: Choice) -> pd.DataFrame:
    """Return a row per layer: the C.V. of Q over units, and slope and R2 of V on M.

    `identity` is -1 + cov(Q, M)/var(M), which the slope must equal since V = Q - M.
    """
    rows: list[dict[str, Any]] = []
    for layer, name in survey.layer_names.items():
        table = points(survey, layer, choice)
        used = table[table["used"]]
        row: dict[str, Any] = {"survey": survey.model, "layer": layer, "layer_name": name}
        row |= {"population": choice.population, "q_cv": float("nan"), "identity": float("nan")}
        if len(used) >= 3:
            q, m = used["q"].to_numpy(np.float64), used["m"].to_numpy(np.float64)
            row["q_cv"] = coefficient_of_variation(q)
            if np.ptp(m) > 0:
                row["identity"] = -1 + float(np.cov(q, m, bias=True)[0, 1] / m.var())
        rows.append(row | fit(table, ("v_on_m",))["v_on_m"])
    return pd.DataFrame(rows)


def _unbiased(survey: Surveyed, table: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """Move from M and V_B to V_W what is there only because means of few occurrences scatter.

    A unit's mean scatters by V_u/n about the true one, so V_B is too large by sum p_t V_u(X_t)/n_t, less what the
    mean of everything follows of it, sum p_t V_u(X_t)/n, by which M is too large. The sum is still Q.
    """
    kept = replace(choice, specials="kept")
    scatter, whole = [], []
    for layer in table["layer"]:
        rows = points(survey, int(layer), kept)
        if choice.filter == "all" and (rows["n"] == 1).any():
            raise InputError(
                f"--variant unbiased --filter all: in {survey.model} some units occur once, so that their V "
                "cannot be told without bias, nor V_W and V_B of all; use --filter frequent."
            )
        used = rows[rows["used"]]
        n = used["n"].to_numpy(np.float64)
        share = n / n.sum() if len(n) else n
        v = used["v"].to_numpy(np.float64)
        scatter.append(float(share @ (v / n)))
        whole.append(float(share @ v / n.sum()) if len(n) else 0.0)
    moved, lost = np.array(scatter), np.array(whole)
    v_within, v_between = table["v_within"] + moved, table["v_between"] - moved + lost
    return table.assign(m=table["m"] - lost, v=v_within + v_between, v_within=v_within, v_between=v_between)
