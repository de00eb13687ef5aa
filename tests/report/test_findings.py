from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from theodolite.report import Tables
from theodolite.report.findings import Finding, findings, warnings
from theodolite.report.findings.anisotropy import blame

Make = Callable[..., Tables]


def told(tables: Tables) -> dict[str, Finding]:
    return {one.key: one for one in findings(tables)}


def with_layers(tables: Tables, **columns: dict[str, list[float]]) -> Tables:
    """Put per-population lists of values, a value a layer, into the layer table."""
    layers = tables.layers.copy()
    for column, by_population in columns.items():
        for population, values in by_population.items():
            layers.loc[layers["population"] == population, column] = values
    return replace(tables, layers=layers)


@pytest.fixture
def three(make_tables: Make) -> Tables:
    return make_tables(layers=3)


def test_the_first_position_makes_it(three: Tables) -> None:
    tables = with_layers(
        three,
        anisotropy_svd={
            "all": [0.03, 0.99, 0.5],
            "without-first": [0.03, 0.07, 0.06],
            "without-massive": [0.03, 0.07, 0.09],
        },
    )
    assert told(tables)["anisotropy_svd"].text == (
        "One direction holds 0.99 of the variance at block 1, the most of any layer. The first position makes it: "
        "it is 0.07 without the first position and 0.07 without massive activations. "
        "Without massive activations the peak is 0.09, at the final norm."
    )


def test_the_first_position_does_not_make_it(three: Tables) -> None:
    tables = with_layers(
        three,
        mean_cosine={
            "all": [0.1, 0.3, 0.52],
            "without-first": [0.1, 0.3, 0.515],
            "without-massive": [0.1, 0.3, 0.51],
        },
    )
    assert told(tables)["mean_cosine"].text == (
        "Two positions have an average cosine of 0.52 at the final norm, the most of any layer. It is not made by "
        "the first position or massive activations: it is 0.515 without the first position and 0.51 without "
        "massive activations."
    )


@pytest.mark.parametrize(
    ("value", "first", "massive", "words"),
    [
        (0.9, 0.85, 0.1, "Massive activations, and not only at the first position, make it"),
        (0.9, 0.1, 0.85, "The first position makes it"),
        (0.9, 0.6, 0.89, "The first position makes part of it"),
        (0.9, 0.6, 0.6, "The first position and massive activations make part of it"),
        (0.05, 0.02, 0.02, "The first position and massive activations make part of it"),
        (0.02, 0.001, 0.001, "It is not made by the first position or massive activations"),
    ],
)
def test_blame_goes_by_both_populations(value: float, first: float, massive: float, words: str) -> None:
    assert blame(value, {"without-first": first, "without-massive": massive}) == words


def test_one_population_alone_lays_no_blame(make_tables: Make) -> None:
    text = told(make_tables(populations=("all",)))["mean_cosine"].text
    assert text.endswith("No other population was measured, so it is not known which positions make it.")
    text = told(make_tables(populations=("without-first",)))["mean_cosine"].text
    assert text.endswith("This is the population without-first; all positions together were not measured.")


def test_the_tightest_tradeoff(three: Tables) -> None:
    same = [np.nan, 0.8, 0.91], [np.nan, -0.7, -0.85]
    names = three.layers["population"].unique()
    tables = with_layers(
        three,
        tradeoff_r2=dict.fromkeys(names, same[0]),
        tradeoff_slope=dict.fromkeys(names, same[1]),
    )
    assert told(tables)["tradeoff"].text == (
        "Units whose mean lies farther from the origin (larger M) spread less (V), most tightly at the final "
        "norm: R² 0.91 with slope −0.85 over 412 units. A slope of −1 would give all units one Q."
    )


def test_a_rising_fit_is_not_called_a_tradeoff(three: Tables) -> None:
    tables = replace(three, layers=three.layers.assign(tradeoff_slope=0.4))
    assert "(larger M) spread more (V)" in told(tables)["tradeoff"].text
    assert "−1" not in told(tables)["tradeoff"].text
    assert "no trade-off" in told(tables)["tradeoff"].headline


def test_the_range_of_dimension(three: Tables) -> None:
    tables = with_layers(
        replace(three, layers=three.layers.drop(columns=["twonn"])),
        effective_rank={"all": [90, 2, 60], "without-first": [90, 40, 60], "without-massive": [90, 40, 60]},
        participation_ratio={name: [50, 20, 30] for name in three.layers["population"].unique()},
    )
    assert told(tables)["dimension"].text == (
        "Effective rank from 2 at block 1 to 90 at the embeddings; participation ratio from 20 at block 1 to 50 "
        "at the embeddings, in 384 coordinates. Without massive activations: effective rank from 40 at block 1 "
        "to 90 at the embeddings."
    )


def test_warnings_tell_counts_and_places(three: Tables) -> None:
    tables = with_layers(
        replace(three, layers=three.layers.assign(undefined=None, massive=0, sample_duplicates=0)),
        zero={"all": [0, 7, 2]},
        nonfinite={"all": [0, 0, 1]},
        sample_duplicates={"all": [1, 0, 0]},
    )
    assert warnings(tables) == [
        "1 of 131,072 positions is not finite at the final norm. What is not finite is left out of every number.",
        "7 of 131,072 positions are exactly zero at block 1, the most of the 2 layers where this happens. "
        "A zero vector has no direction and no part in the mean cosine.",
        "The sample held 1 duplicate at the embeddings, dropped before TwoNN.",
    ]


def test_a_clean_survey_has_no_warnings(three: Tables) -> None:
    clean = three.layers.assign(zero=0, nonfinite=0, massive=0, sample_duplicates=0, undefined=None)
    assert warnings(replace(three, layers=clean)) == []


def test_nothing_is_said_of_nothing(three: Tables) -> None:
    empty = replace(three, layers=pd.DataFrame({"layer": [], "population": []}))
    assert findings(empty) == []
    assert warnings(empty) == []
