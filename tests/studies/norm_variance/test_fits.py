"""Every fit against scipy on rows that pandas filtered."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress
from tests.synthetic_surveys import SPECIAL, make_survey, remove_units

from theodolite.measures.unit_fits import resample_counts
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import (
    FITS,
    RESAMPLES,
    SEED,
    fit_units,
    make_fit_table,
    variation_interval,
)
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.survey_data import SurveyData

SURVEY = make_survey().survey
ROUNDING = 1e-9
"""Relative: both are float64 sums over fewer than 100 units."""
EVERY = list(product(("all", "without-first"), ("biased", "unbiased"), ("frequent", "all"), ("kept", "left-out")))


def naive(layer: int, choice: Choice) -> pd.DataFrame:
    """The rows of a fit, filtered by hand."""
    rows = SURVEY.tokens.query("layer == @layer and population == @choice.population").copy()
    if choice.variant == "unbiased":
        rows["m"], rows["v"] = rows["m_unbiased"], rows["v_unbiased"]
        rows = rows[rows["n"] > 1]
    if choice.filter == "frequent":
        rows = rows[(np.log10(rows["n"]) >= 1) & (np.log10(rows["n"]) <= 5)]
    if choice.specials == "left-out":
        rows = rows[~rows["unit"].isin(SPECIAL)]
    return rows.assign(log10_n=np.log10(rows["n"]), **{f"log10_1{c}": np.log10(1 + rows[c]) for c in "qmv"})


@pytest.mark.parametrize("each", EVERY, ids="-".join)
def test_every_fit_is_that_of_least_squares(each: tuple[str, str, str, str]) -> None:
    choice = Choice(*each)
    table = make_fit_table(SURVEY, layers=[1], choices=[choice]).set_index("fit")
    rows = naive(1, choice)
    for name, (x, y) in FITS.items():
        found, theirs = table.loc[name], linregress(rows[x], rows[y])
        assert found["units"] == len(rows)
        assert found["slope"] == pytest.approx(theirs.slope, rel=ROUNDING)
        assert found["intercept"] == pytest.approx(theirs.intercept, rel=ROUNDING)
        assert found["r2"] == pytest.approx(theirs.rvalue**2, rel=ROUNDING)
        assert found["slope_low"] < found["slope"] < found["slope_high"]
        assert found["reason"] is None


def test_the_table_has_a_row_for_everything() -> None:
    table = make_fit_table(SURVEY)
    keys = ["survey", "layer", "population", "fit", "variant", "filter", "specials"]
    assert len(table) == 3 * 2 * len(FITS) * 2 * 2 * 2
    assert not table.duplicated(keys).any()
    assert list(table["layer"]) == sorted(table["layer"])


def test_the_interval_is_that_of_drawing_units_again() -> None:
    table = select_units(SURVEY, 1, Choice())
    used = table[table["used"]]
    m, v = used["m"].to_numpy(), used["v"].to_numpy()
    drawn = [
        np.repeat(np.arange(len(m)), row.astype(int))
        for row in resample_counts(len(m), seed=SEED, resamples=RESAMPLES)
    ]
    lines = [linregress(m[rows], v[rows]) for rows in drawn]
    found = fit_units(table, ["v_on_m"])["v_on_m"]
    ends = [0.025, 0.975]
    assert [found["slope_low"], found["slope_high"]] == pytest.approx(np.quantile([a.slope for a in lines], ends))
    assert [found["r2_low"], found["r2_high"]] == pytest.approx(np.quantile([a.rvalue**2 for a in lines], ends))
    q = m + v
    spreads = [q[rows].std() / q[rows].mean() for rows in drawn]
    assert variation_interval(q) == pytest.approx(np.quantile(spreads, ends))


def test_the_interval_has_about_the_theoretical_width() -> None:
    rng = np.random.default_rng(3)
    m = rng.normal(50, 10, 400)
    v = 100 - 0.8 * m + rng.normal(0, 4, 400)
    table = pd.DataFrame({"m": m, "v": v, "q": m + v, "log10_n": 1.0, "used": True})
    found = fit_units(table, ["v_on_m"])["v_on_m"]
    theory = 2 * 1.96 * linregress(m, v).stderr
    # A 2.5% quantile of 500 draws is known to some 12% of the spread; two of them, and the bootstrap's own error.
    assert found["slope_high"] - found["slope_low"] == pytest.approx(theory, rel=0.2)


def test_undefined_fits_have_a_reason() -> None:
    few = fit_units(select_units(make_survey(units=3).survey, 1, Choice()))
    assert {row["reason"] for row in few.values()} == {"fewer than three units"}
    assert all(np.isnan(row["slope"]) and row["units"] == 1 for row in few.values())
    table = select_units(SURVEY, 1, Choice()).assign(v=0.0)
    still = fit_units(table)
    assert still["v_on_m"]["reason"] == "V is 0 for every unit"
    assert still["log10_1v_on_log10_n"]["slope"] == 0
    assert still["log10_1v_on_log10_n"]["reason"] == "y is the same for every unit"
    alike = fit_units(table.assign(log10_n=1.5))
    assert alike["q_on_log10_n"]["reason"] == "x is the same for every unit"
    assert np.isnan(alike["q_on_log10_n"]["slope"])
    assert alike["v_on_m"]["reason"] == "V is 0 for every unit"


def test_a_negative_unbiased_m_is_excluded_from_the_logarithm_only() -> None:
    table = select_units(SURVEY, 1, Choice(variant="unbiased"))
    first = table.index[table["used"]][0]
    table.loc[first, "m"] = -1.5
    found = fit_units(table)
    assert found["m_on_log10_n"]["units"] == found["log10_1m_on_log10_n"]["units"] + 1
    assert np.isfinite(found["log10_1m_on_log10_n"]["slope"])


def test_a_survey_without_units_has_no_fit() -> None:
    table = make_fit_table(remove_units(make_survey()))
    assert len(table)
    assert set(table["reason"]) == {"fewer than three units"}


def test_the_same_unit_listed_twice_is_one_point() -> None:
    twice = dict(SURVEY.tables, units=pd.concat([SURVEY.units, SURVEY.units]))
    assert len(select_units(SurveyData(SURVEY.facts, twice), 0, Choice())) == len(
        select_units(SURVEY, 0, Choice())
    )
