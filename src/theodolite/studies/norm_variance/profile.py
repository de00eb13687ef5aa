"""The numbers of each layer: the parts of Q, their ratios and errors, and the trade-off of M and V over units."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.measures.resampling import PARTS, SHARES
from theodolite.measures.unit_fits import coefficient_of_variation
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import all_choices, fit_units, variation_interval
from theodolite.studies.norm_variance.units import count_special_units, mark_used_units, read_units, select_units
from theodolite.studies.survey_data import SurveyData

RATIOS = {
    "m_of_q": ("m", "q"),
    "v_of_q": ("v", "q"),
    "v_within_of_q": ("v_within", "q"),
    "v_between_of_q": ("v_between", "q"),
    "v_within_of_v": ("v_within", "v"),
    "v_between_of_v": ("v_between", "v"),
}
COMPLEMENTS = {"v_of_q": "m_of_q", "v_between_of_v": "v_within_of_v"}
"""Ratios that add up to 1 with another ratio have the same standard error as that ratio."""
WITHOUT_UNITS = {"q", "m", "v", "m_of_q", "v_of_q"}
"""Over all units, older surveys too have errors of these numbers over groups of documents."""
PROFILE_HEAD = "survey layer layer_name population".split()
SUM_HEAD = "survey layer layer_name population variant filter specials".split()
SUM_NUMBERS = [name for number in (*PARTS, *SHARES) for name in (number, f"{number}_se")]
SUM_COLUMNS = [*SUM_HEAD, "units", *SUM_NUMBERS, "errors", "reason"]
UNIT_COUNT_COLUMNS = {"": "types", "filtered_": "units_used"}
"""The column with the number of units, by prefix of the set; other sets have {prefix}units_used."""
CV_COLUMNS = ("q_cv", "q_cv_low", "q_cv_high", "identity")
SINGLE_OCCURRENCES = "some units occur once, so their unbiased V is undefined"
JACKKNIFE = "jackknife over groups of documents"
NO_ERRORS = "an older version made the survey, and its errors over units were too wide: survey again"


def profile(survey: SurveyData, choice: Choice) -> pd.DataFrame:
    """Return one row per layer: Q, M, V, V_W, V_B over all vectors, their ratios, and errors (`q_se`, ...).

    They are over the same units as fits: those that pass the filter, with or without special units. Errors are
    those of the biased numbers; the bias correction hardly changes them.
    """
    chosen = choice.with_filter()
    table = layer_sums(survey, chosen, lambda layer: read_units(survey, layer, chosen.population))
    if chosen.variant == "unbiased" and table["once"].any():
        raise InputError(
            f"--variant unbiased --filter all: in {survey.model} some units occur once, so their unbiased V, and "
            "V_W and V_B of all units, are undefined; use --filter frequent."
        )
    return table.drop(columns="once")


def column_prefix(survey: SurveyData, choice: Choice) -> str:
    """Return the column prefix for the units of the choice: "", "filtered_", "text_" or "unfiltered_text_"."""
    every = choice.includes_specials(survey) or not count_special_units(survey)
    if choice.with_filter().filter == "all":
        return "" if every else "unfiltered_text_"
    return "filtered_" if every else "text_"


def has_document_errors(survey: SurveyData) -> bool:
    """Return whether errors are those over groups of documents; older surveys have errors over units."""
    return "jackknife" in survey.facts.get("formulas", {"jackknife": {}})


def has_sums(survey: SurveyData) -> bool:
    """Return whether layers.parquet has the sums over text and their errors, which older surveys lack."""
    return {"text_q", "unfiltered_text_q", "m_of_q_se", "text_m_of_q_se"} <= set(survey.layers.columns)


def layer_sums(survey: SurveyData, choice: Choice, at: Callable[[int], pd.DataFrame]) -> pd.DataFrame:
    """Return the profile; `at` returns the units of a layer. Rows with `once` have no unbiased numbers."""
    prefix = column_prefix(survey, choice)
    rows = survey.layers[survey.layers["population"] == choice.population].sort_values("layer")
    columns = {part: f"{prefix}{part}" for part in PARTS}
    columns |= {f"{name}_se": f"{prefix}{COMPLEMENTS.get(name, name)}_se" for name in (*PARTS, *RATIOS)}
    table = pd.DataFrame({name: rows[column].to_numpy(np.float64) for name, column in columns.items()})
    if not has_document_errors(survey):
        known = WITHOUT_UNITS if prefix == "" else set()
        table = table.assign(**{f"{name}_se": np.nan for name in (*PARTS, *RATIOS) if name not in known})
    for position, name in enumerate(PROFILE_HEAD[1:]):
        table.insert(position, name, rows[name].to_numpy())
    table.insert(0, "survey", survey.model)
    table = table.assign(once=False)
    if choice.variant == "unbiased":
        kept = choice.includes_specials(survey)
        units = [mark_used_units(at(int(layer)), choice, specials=kept) for layer in table["layer"]]
        table = _correct_bias(table, units, specials=kept, not_filtered=choice.filter == "all")
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, (part, whole) in RATIOS.items():
            table[name] = np.where(table[whole] > 0, table[part] / table[whole], np.nan)
    return table


def tradeoff(survey: SurveyData, choice: Choice) -> pd.DataFrame:
    """Return one row per layer: the coefficient of variation of Q over units, and slope and R2 of V on M.

    `_low` and `_high` are the ends of 95% bootstrap intervals over units.
    `identity` is -1 + cov(Q, M)/var(M), which the slope must equal since V = Q - M.
    """
    rows: list[dict[str, Any]] = []
    for layer, name in survey.layer_names.items():
        table = select_units(survey, layer, choice)
        used = table[table["used"]]
        row: dict[str, Any] = {"survey": survey.model, "layer": layer, "layer_name": name}
        row |= {"population": choice.population, **dict.fromkeys(CV_COLUMNS, float("nan"))}
        if len(used) >= 3:
            q, m = used["q"].to_numpy(np.float64), used["m"].to_numpy(np.float64)
            row["q_cv"] = coefficient_of_variation(q)
            row["q_cv_low"], row["q_cv_high"] = variation_interval(q)
            if np.ptp(m) > 0:
                row["identity"] = -1 + float(np.cov(q, m, bias=True)[0, 1] / m.var())
        rows.append(row | fit_units(table, ("v_on_m",))["v_on_m"])
    return pd.DataFrame(rows)


def _correct_bias(
    table: pd.DataFrame, layers: list[pd.DataFrame], *, specials: bool, not_filtered: bool
) -> pd.DataFrame:
    """Correct M, V_B and V_W for the sampling variance of means over few occurrences.

    The mean of a unit varies by V_u/n about its expectation. So V_B is too large by sum p_t V_u(X_t)/n_t minus
    sum p_t V_u(X_t)/n, and M is too large by sum p_t V_u(X_t)/n. The sum of all parts is still Q.
    """
    scatter, mean_bias, once = [], [], []
    for rows in layers:
        used = rows[rows["used"]]
        n, v = used["n"].to_numpy(np.float64), used["v"].to_numpy(np.float64)
        share = n / n.sum() if len(n) else n
        scatter.append(float(share @ (v / n)))
        mean_bias.append(float(share @ v / n.sum()) if len(n) else 0.0)
        counted = rows if specials else rows[~rows["special"]]
        once.append(bool(not_filtered and ((counted["n"] == 1) | counted["v"].isna()).any()))
    moved, lost = (np.where(once, np.nan, values) for values in (scatter, mean_bias))
    v_within, v_between = table["v_within"] + moved, table["v_between"] - moved + lost
    return table.assign(
        m=table["m"] - lost, v=v_within + v_between, v_within=v_within, v_between=v_between, once=once
    )


def make_sum_table(survey: SurveyData, *, layers: Iterable[int] | None = None) -> pd.DataFrame:
    """Return one row per layer, population, variant, filter, with and without special units.

    `errors` states how the standard errors were computed; unbiased numbers have those of the biased ones. If
    numbers are undefined, `reason` states why.
    """
    selected = set(survey.layer_names if layers is None else layers)
    known = has_document_errors(survey)
    tables: list[pd.DataFrame] = []
    for population, choices in groupby(all_choices(survey), lambda choice: choice.population):

        @cache
        def at(layer: int, population: str = population) -> pd.DataFrame:
            return read_units(survey, layer, population)

        rows = survey.layers[survey.layers["population"] == population].sort_values("layer")
        kept = rows["layer"].isin(selected).to_numpy(bool)
        for choice in choices:
            table, prefix = layer_sums(survey, choice, at), column_prefix(survey, choice)
            counts = rows[UNIT_COUNT_COLUMNS.get(prefix, f"{prefix}units_used")]
            columns: dict[str, Any] = {
                "variant": choice.variant,
                "filter": choice.filter,
                "specials": choice.specials,
            }
            columns |= {
                "units": counts.to_numpy(np.float64),
                "errors": JACKKNIFE if known else None,
            }
            reasons = [_reason(row, prefix) for row in rows.to_dict("records")]
            columns["reason"] = [
                SINGLE_OCCURRENCES if once else why or (None if known else NO_ERRORS)
                for once, why in zip(table["once"], reasons, strict=True)
            ]
            tables.append(table.assign(**columns)[kept])
    table = pd.concat(tables).reindex(columns=SUM_COLUMNS).astype({"units": "Int64"})
    return table.sort_values("layer", kind="stable", ignore_index=True)


def _reason(row: dict[str, Any], prefix: str) -> str | None:
    """Return the reason stored in the survey for the first undefined number."""
    stored = row.get("undefined")
    reasons = json.loads(stored) if isinstance(stored, str) else {}
    return next((reasons[f"{prefix}{name}"] for name in SUM_NUMBERS if f"{prefix}{name}" in reasons), None)
