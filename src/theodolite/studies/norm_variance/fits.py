"""Lines over units: V on M, and Q, M, V on log10 n, with the slope's interval."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.tradeoff import lines, resampled
from theodolite.studies.choice import FILTERS, VARIANTS, Choice
from theodolite.studies.norm_variance.points import chosen_points, seen
from theodolite.studies.surveyed import Surveyed

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
"""What each fit is of: x, y. `log10_1q` is log10(1 + Q)."""
NUMBERS = "slope slope_low slope_high intercept r2 units reason".split()
COLUMNS = ["survey", "layer", "layer_name", "population", "fit", "variant", "filter", "specials", *NUMBERS]


def fits(
    survey: Surveyed,
    *,
    names: Iterable[str] = tuple(FITS),
    layers: Iterable[int] | None = None,
    choices: Iterable[Choice] | None = None,
) -> pd.DataFrame:
    """Return a row per layer, fit and choice; by default every population, variant, filter, specials in and out.

    `slope_low` to `slope_high` is the slope's 95% interval, by drawing the units again; where a number is
    undefined, `reason` says why.
    """
    rows: list[dict[str, Any]] = []
    wanted, known = tuple(names), survey.layer_names
    for population, alike in groupby(every_choice(survey) if choices is None else choices, _population):
        tables = {layer: seen(survey, layer, population) for layer in (known if layers is None else layers)}
        for choice in alike:
            told, kept = choice.filtered(), choice.kept(survey)
            head: dict[str, Any] = {"survey": survey.model, "population": population, "variant": told.variant}
            head |= {"filter": told.filter, "specials": "kept" if kept else "left-out"}
            for layer, table in tables.items():  # all of the same units, and so with the same draws
                found = fit(chosen_points(table, told, specials=kept), wanted)
                at = {"layer": layer, "layer_name": known[layer]}
                rows += [head | at | {"fit": name} | found[name] for name in wanted]
    return pd.DataFrame(rows, columns=COLUMNS).sort_values("layer", kind="stable", ignore_index=True)


def every_choice(survey: Surveyed) -> list[Choice]:
    """Return each population, variant and filter, with special units and without."""
    every = product(survey.facts["populations"], VARIANTS, FILTERS, ("kept", "left-out"))
    return [Choice(*each) for each in every]


def _population(choice: Choice) -> str:
    return choice.population


def fit(table: pd.DataFrame, names: Iterable[str] = tuple(FITS)) -> dict[str, dict[str, Any]]:
    """Fit lines through the used points; return the numbers of each by name."""
    used = logged(table[table["used"]])
    columns = {name: tuple(used[column].to_numpy(np.float64) for column in FITS[name]) for name in names}
    alike: dict[bytes, list[str]] = {}  # fits of the same units are made together
    for name, (x, y) in columns.items():
        alike.setdefault((np.isfinite(x) & np.isfinite(y)).tobytes(), []).append(name)
    found: dict[str, dict[str, Any]] = {}
    for told, group in alike.items():
        chosen = np.frombuffer(told, dtype=bool)
        pairs = [[columns[name][axis][chosen] for name in group] for axis in (0, 1)]
        found |= dict(zip(group, _fit(group, *pairs), strict=True))
    return {name: found[name] for name in columns}


def logged(table: pd.DataFrame) -> pd.DataFrame:
    """Add log10(1 + Q), log10(1 + M) and log10(1 + V); NaN where an unbiased M is -1 or less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = {f"log10_1{name}": np.log10(1 + table[name].to_numpy(np.float64)) for name in "qmv"}
    return table.assign(**{name: np.where(np.isfinite(values), values, np.nan) for name, values in logs.items()})


def _fit(names: list[str], xs: list[Array], ys: list[Array]) -> list[dict[str, Any]]:
    """Fit y on x for lists of columns that all have the same units."""
    units = len(xs[0])
    if units < 3:
        return [_undefined(units, "fewer than three units")] * len(names)
    x, y = np.stack(xs, axis=1), np.stack(ys, axis=1)
    slope, r2 = (values[0] for values in lines(np.ones((1, units)), x, y))
    low, high = slope_interval(x, y)
    intercept = y.mean(axis=0) - slope * x.mean(axis=0)
    rows = []
    for column, name in enumerate(names):
        if name == "v_on_m" and not y[:, column].any():
            rows.append(_undefined(units, "V is 0 for every unit"))
        elif not np.isfinite(slope[column]):
            rows.append(_undefined(units, "x is the same for every unit"))
        else:
            values = (slope, low, high, intercept, r2)
            row: dict[str, Any] = dict(zip(NUMBERS, (float(value[column]) for value in values), strict=False))
            flat = None if np.isfinite(r2[column]) else "y is the same for every unit"
            rows.append(row | {"units": units, "reason": flat})
    return rows


def _undefined(units: int, reason: str) -> dict[str, Any]:
    return dict.fromkeys(NUMBERS, float("nan")) | {"units": units, "reason": reason}


def slope_interval(x: Array, y: Array, *, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[Array, Array]:
    """Return the 2.5% and 97.5% quantiles of slopes when units are drawn again. (units, fits) -> (fits,) each"""
    slopes = lines(_weights(len(x), resamples, seed), x, y).slope
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a column whose slope is NaN in every draw
        low, high = np.nanquantile(slopes, [0.025, 0.975], axis=0)
    return low, high


@lru_cache(maxsize=2)
def _weights(units: int, resamples: int, seed: int) -> Array:
    return resampled(units, seed=seed, resamples=resamples)
