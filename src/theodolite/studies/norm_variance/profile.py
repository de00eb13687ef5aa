"""What is said of each layer: the makeup of Q, how little it varies over units, and the trade-off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.measures.resampling import PARTS
from theodolite.measures.tradeoff import coefficient_of_variation
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fit
from theodolite.studies.norm_variance.points import chosen_points, points, seen, special_units
from theodolite.studies.surveyed import Surveyed

RATIOS = {
    "m_of_q": ("m", "q"),
    "v_of_q": ("v", "q"),
    "v_within_of_q": ("v_within", "q"),
    "v_between_of_q": ("v_between", "q"),
    "v_within_of_v": ("v_within", "v"),
    "v_between_of_v": ("v_between", "v"),
}
SAME_ERROR = {"v_of_q": "m_of_q", "v_between_of_v": "v_within_of_v"}
"""Ratios that add up to 1 with another move as far as it does."""
BY_DOCUMENTS = {"q", "m", "v", "m_of_q", "v_of_q"}
"""Over all units these have errors by jackknife over groups of documents; all others by bootstrap over units."""
HEAD = "survey layer layer_name population".split()


def profile(survey: Surveyed, choice: Choice) -> pd.DataFrame:
    """Return a row per layer: Q, M, V, V_W, V_B of everything together, their ratios, and errors (`q_se`, ...).

    They are over the units that pass the filter, special units as the choice has it, just as fits are. Errors are
    those of the biased numbers, which the correction of the unbiased ones hardly moves.
    """
    chosen = choice.filtered()
    table = layer_sums(survey, chosen, lambda layer: seen(survey, layer, chosen.population))
    if chosen.variant == "unbiased" and table["once"].any():
        raise InputError(
            f"--variant unbiased --filter all: in {survey.model} some units occur once, so that their V "
            "cannot be told without bias, nor V_W and V_B of all; use --filter frequent."
        )
    return table.drop(columns="once")


def set_of(survey: Surveyed, choice: Choice) -> str:
    """Return what the columns over the choice's units begin with: "", "filtered_", "text_", "unfiltered_text_"."""
    every = choice.kept(survey) or not special_units(survey)
    if choice.filtered().filter == "all":
        return "" if every else "unfiltered_text_"
    return "filtered_" if every else "text_"


def by_documents(survey: Surveyed, choice: Choice, name: str) -> bool:
    """Say whether a number's error is by jackknife over groups of documents, whose sums know no set of units."""
    return set_of(survey, choice) == "" and name in BY_DOCUMENTS


def has_sums(survey: Surveyed) -> bool:
    """Say whether the survey's table has sums over text and their errors, which older ones lack."""
    return {"text_q", "unfiltered_text_q", "m_of_q_se", "text_m_of_q_se"} <= set(survey.layers.columns)


def layer_sums(survey: Surveyed, choice: Choice, at: Callable[[int], pd.DataFrame]) -> pd.DataFrame:
    """Return the profile; `at` gives a layer's units. Where some `once` occur, nothing unbiased can be told."""
    prefix = set_of(survey, choice)
    rows = survey.layers[survey.layers["population"] == choice.population].sort_values("layer")
    columns = {part: f"{prefix}{part}" for part in PARTS}
    columns |= {f"{name}_se": f"{prefix}{SAME_ERROR.get(name, name)}_se" for name in (*PARTS, *RATIOS)}
    table = pd.DataFrame({name: rows[column].to_numpy(np.float64) for name, column in columns.items()})
    for position, name in enumerate(HEAD[1:]):
        table.insert(position, name, rows[name].to_numpy())
    table.insert(0, "survey", survey.model)
    table = table.assign(once=False)
    if choice.variant == "unbiased":
        kept = choice.kept(survey)
        units = [chosen_points(at(int(layer)), choice, specials=kept) for layer in table["layer"]]
        table = _unbiased(table, units, specials=kept, not_filtered=choice.filter == "all")
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


def _unbiased(
    table: pd.DataFrame, layers: list[pd.DataFrame], *, specials: bool, not_filtered: bool
) -> pd.DataFrame:
    """Move from M and V_B to V_W what is there only because means of few occurrences scatter.

    A unit's mean scatters by V_u/n about the true one, so V_B is too large by sum p_t V_u(X_t)/n_t, less what the
    mean of everything follows of it, sum p_t V_u(X_t)/n, by which M is too large. The sum is still Q.
    """
    scatter, whole, once = [], [], []
    for rows in layers:
        used = rows[rows["used"]]
        n, v = used["n"].to_numpy(np.float64), used["v"].to_numpy(np.float64)
        share = n / n.sum() if len(n) else n
        scatter.append(float(share @ (v / n)))
        whole.append(float(share @ v / n.sum()) if len(n) else 0.0)
        counted = rows if specials else rows[~rows["special"]]
        once.append(bool(not_filtered and (counted["n"] == 1).any()))
    moved, lost = (np.where(once, np.nan, values) for values in (scatter, whole))
    v_within, v_between = table["v_within"] + moved, table["v_between"] - moved + lost
    return table.assign(
        m=table["m"] - lost, v=v_within + v_between, v_within=v_within, v_between=v_between, once=once
    )
