"""Regression lines over units: V on M, and Q, M, V on log10 n, with intervals of slopes and R2."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.unit_fits import ROUNDING, fit_lines, resample_counts
from theodolite.studies.choice import FILTERS, VARIANTS, Choice
from theodolite.studies.norm_variance.units import mark_used_units, read_units
from theodolite.studies.survey_data import SurveyData

Array = NDArray[np.float64]
RESAMPLES, SEED = 500, 0
FITS = {
    "v_on_m": ("m", "v"),
    "q_on_log10_n": ("log10_n", "q"),
    "m_on_log10_n": ("log10_n", "m"),
    "v_on_log10_n": ("log10_n", "v"),
    "log10_1q_on_log10_n": ("log10_n", "log10_1q"),
    "log10_1m_on_log10_n": ("log10_n", "log10_1m"),
    "log10_1v_on_log10_n": ("log10_n", "log10_1v"),
}
"""The x and y of each fit. `log10_1q` is log10(1 + Q)."""
NUMBERS = "slope slope_low slope_high intercept r2 r2_low r2_high units reason".split()
COLUMNS = ["survey", "layer", "layer_name", "population", "fit", "variant", "filter", "specials", *NUMBERS]


def make_fit_table(
    survey: SurveyData,
    *,
    names: Iterable[str] = tuple(FITS),
    layers: Iterable[int] | None = None,
    choices: Iterable[Choice] | None = None,
) -> pd.DataFrame:
    """Return one row per layer, fit and choice; by default for all populations, variants, filters and specials.

    `slope_low` to `slope_high` is the 95% bootstrap interval of the slope over units, and `r2_low` to `r2_high`
    that of R2. If a number is undefined, `reason` states why.
    """
    rows: list[dict[str, Any]] = []
    fit_names, known = tuple(names), survey.layer_names
    for population, alike in groupby(all_choices(survey) if choices is None else choices, _population):
        tables = {layer: read_units(survey, layer, population) for layer in (known if layers is None else layers)}
        for choice in alike:
            filtered, kept = choice.with_filter(), choice.includes_specials(survey)
            head: dict[str, Any] = {"survey": survey.model, "population": population, "variant": choice.variant}
            head |= {"filter": filtered.filter, "specials": "kept" if kept else "left-out"}
            for layer, table in tables.items():  # all layers have the same units, and so the same resamples
                found = fit_units(mark_used_units(table, filtered, specials=kept), fit_names)
                at = {"layer": layer, "layer_name": known[layer]}
                rows += [head | at | {"fit": name} | found[name] for name in fit_names]
    return pd.DataFrame(rows, columns=COLUMNS).sort_values("layer", kind="stable", ignore_index=True)


def all_choices(survey: SurveyData) -> list[Choice]:
    """Return all combinations of population, variant and filter, with and without special units."""
    every = product(survey.facts["populations"], VARIANTS, FILTERS, ("kept", "left-out"))
    return [Choice(*each) for each in every]


def _population(choice: Choice) -> str:
    return choice.population


def fit_units(table: pd.DataFrame, names: Iterable[str] = tuple(FITS)) -> dict[str, dict[str, Any]]:
    """Fit lines through the used units; return the numbers of each fit by name."""
    used = add_logarithms(table[table["used"]])
    columns = {name: tuple(used[column].to_numpy(np.float64) for column in FITS[name]) for name in names}
    by_mask: dict[bytes, list[str]] = {}  # fits over the same units are computed together
    for name, (x, y) in columns.items():
        by_mask.setdefault((np.isfinite(x) & np.isfinite(y)).tobytes(), []).append(name)
    found: dict[str, dict[str, Any]] = {}
    for mask, group in by_mask.items():
        kept = np.frombuffer(mask, dtype=bool)
        pairs = [[columns[name][axis][kept] for name in group] for axis in (0, 1)]
        found |= dict(zip(group, _fit_columns(group, *pairs), strict=True))
    return {name: found[name] for name in columns}


def add_logarithms(table: pd.DataFrame) -> pd.DataFrame:
    """Add log10(1 + Q), log10(1 + M) and log10(1 + V); NaN if an unbiased M is -1 or less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = {f"log10_1{name}": np.log10(1 + table[name].to_numpy(np.float64)) for name in "qmv"}
    return table.assign(**{name: np.where(np.isfinite(values), values, np.nan) for name, values in logs.items()})


def _fit_columns(names: list[str], xs: list[Array], ys: list[Array]) -> list[dict[str, Any]]:
    """Fit y on x for lists of columns over the same units."""
    units = len(xs[0])
    if units < 3:
        return [_undefined_fit(units, "fewer than three units")] * len(names)
    x, y = np.stack(xs, axis=1), np.stack(ys, axis=1)
    slope, r2 = (values[0] for values in fit_lines(np.ones((1, units)), x, y))
    (low, high), (r2_low, r2_high) = fit_intervals(x, y)
    intercept = y.mean(axis=0) - slope * x.mean(axis=0)
    rows = []
    for column, name in enumerate(names):
        if name == "v_on_m" and not (y[:, column] > ROUNDING * (x + y)[:, column]).any():
            rows.append(_undefined_fit(units, "V is 0 for every unit"))
        elif not np.isfinite(slope[column]):
            rows.append(_undefined_fit(units, "x is the same for every unit"))
        else:
            values = (slope, low, high, intercept, r2, r2_low, r2_high)
            row: dict[str, Any] = dict(zip(NUMBERS, (float(value[column]) for value in values), strict=False))
            flat = None if np.isfinite(r2[column]) else "y is the same for every unit"
            rows.append(row | {"units": units, "reason": flat})
    return rows


def _undefined_fit(units: int, reason: str) -> dict[str, Any]:
    return dict.fromkeys(NUMBERS, float("nan")) | {"units": units, "reason": reason}


def fit_intervals(
    x: Array, y: Array, *, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the 95% bootstrap intervals of slopes and of R2 over units. (units, fits) -> (fits,) each"""
    fits = fit_lines(_resampling_weights(len(x), resamples, seed), x, y)
    return _find_quantiles(fits.slope), _find_quantiles(fits.r2)


def variation_interval(values: Array) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the coefficient of variation over units. (units,)"""
    weights = _resampling_weights(len(values), RESAMPLES, SEED) / len(values)
    middle = values.mean()
    mean, second = weights @ values, weights @ np.square(values - middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.maximum(second - np.square(mean - middle), 0)) / mean
    low, high = _find_quantiles(np.where(mean > 0, spread, np.nan))
    return float(low), float(high)


def _find_quantiles(resampled: Array) -> tuple[Array, Array]:
    """Return the 2.5% and 97.5% quantiles over resamples. (resamples, ...) -> (...) each"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all numbers of a column are NaN
        low, high = np.nanquantile(resampled, [0.025, 0.975], axis=0)
    return low, high


@lru_cache(maxsize=2)
def _resampling_weights(units: int, resamples: int, seed: int) -> Array:
    return resample_counts(units, seed=seed, resamples=resamples)
