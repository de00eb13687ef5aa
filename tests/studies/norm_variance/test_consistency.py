"""Ratios beside cosines, against the vectors themselves, and their correlations against the definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr, spearmanr
from tests.synthetic_surveys import (
    COSINE_ERROR,
    SIMILARITY_ERROR,
    add_contextuality,
    compute_sums,
    make_survey,
    mean_pair_cosine,
    mean_similarity,
    select_unit_sets,
)

from theodolite.errors import InputError
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.consistency import (
    PAIRS,
    comparable_choices,
    consistency,
    correlate_layers,
    equal_norm_ratio,
)

MADE = make_survey(layers=5)
SURVEY = add_contextuality(MADE)
ROUNDING = 1e-9
"""Relative: float64 sums of some thousand terms in another order."""


def ratio(layer: int, population: str, of: str, part: str, under: str) -> float:
    parts = compute_sums(select_unit_sets(MADE.vectors[layer, population])[of])
    return parts[part] / parts[under]


def table(**columns: list[float]) -> pd.DataFrame:
    """A table of layers with these columns; the rest is NaN."""
    count = len(next(iter(columns.values())))
    names = {name for pair in PAIRS.values() for name in pair}
    return pd.DataFrame({"stack": [""] * count} | {name: columns.get(name, [np.nan] * count) for name in names})


@pytest.mark.parametrize("population", ["all", "without-first"])
@pytest.mark.parametrize(
    ("choice", "means", "units"),
    [
        ({}, "", "text_"),
        ({"filter": "all"}, "", "unfiltered_text_"),
        ({"filter": "frequent"}, "filtered_", "text_"),
        ({"specials": "kept"}, "", "filtered_"),
        ({"specials": "left-out"}, "unfiltered_text_", "text_"),
    ],
)
def test_every_number_is_that_of_the_vectors(
    population: str, choice: dict[str, str], means: str, units: str
) -> None:
    found = consistency(SURVEY, Choice(population, **choice))  # type: ignore[arg-type]
    assert found["layer"].tolist() == [0, 1, 2, 3, 4]
    for row in found.to_dict("records"):
        vectors = MADE.vectors[row["layer"], population]
        cosine, similarity = mean_pair_cosine(np.concatenate(list(vectors.values()))), mean_similarity(vectors)
        assert row["mean_cosine"] == pytest.approx(cosine, rel=ROUNDING)
        assert row["self_similarity"] == pytest.approx(similarity, rel=ROUNDING)
        assert row["equal_norms"] == pytest.approx((1 - similarity) / (1 - cosine), rel=ROUNDING)
        assert row["m_of_q"] == pytest.approx(ratio(row["layer"], population, means, "m", "q"), rel=ROUNDING)
        within = ratio(row["layer"], population, units, "v_within", "v")
        assert row["v_within_of_v"] == pytest.approx(within, rel=ROUNDING)


def test_errors_are_those_of_the_same_units() -> None:
    found = consistency(SURVEY, Choice())
    # make_survey gives M/Q of all units 0.06, and V_W/V of frequent text, its third set, 3 x 0.09
    expected_value = {
        "m_of_q": 0.06,
        "v_within_of_v": 0.27,
        "mean_cosine": COSINE_ERROR,
        "self_similarity": SIMILARITY_ERROR,
    }
    for column, error in expected_value.items():
        for end, sign in (("low", -1), ("high", 1)):
            away = (found[f"{column}_{end}"] - found[column]).to_numpy()
            assert away == pytest.approx(np.full(5, sign * 1.96 * error))


def test_without_bias_both_are_over_frequent_units() -> None:
    means, units = comparable_choices(Choice(variant="unbiased"))
    assert (means.filter, means.specials, units.filter, units.specials) == (
        "frequent",
        "kept",
        "frequent",
        "left-out",
    )
    assert consistency(SURVEY, Choice(variant="unbiased"))["m_of_q"].notna().all()
    with pytest.raises(InputError, match="some units occur once"):
        consistency(SURVEY, Choice(variant="unbiased", filter="all"))


def test_of_vectors_of_one_length_the_ratios_are_the_cosines() -> None:
    rng = np.random.default_rng(3)
    units = [rng.normal(1, 1, 6) + rng.normal(0, 0.7, (50, 6)) for _ in range(40)]
    vectors = {str(i): x / np.linalg.norm(x, axis=1, keepdims=True) for i, x in enumerate(units)}
    parts, everything = compute_sums(vectors), np.concatenate(list(vectors.values()))
    cosine, similarity = mean_pair_cosine(everything), mean_similarity(vectors)
    n = len(everything)
    assert parts["m"] / parts["q"] == pytest.approx(cosine + (1 - cosine) / n, rel=ROUNDING)
    expected = float(equal_norm_ratio(np.array([cosine]), np.array([similarity]))[0])
    # The 50 occurrences of a unit lose a fiftieth of its variance, the 2,000 of all a two-thousandth.
    assert parts["v_within"] / parts["v"] == pytest.approx(expected * (1 - 1 / 50) / (1 - 1 / n), rel=ROUNDING)


def test_a_share_within_may_rise_with_self_similarity() -> None:
    """Which holding V_W/V against S alone would call inconsistent, though it is what the cosines say."""
    cosine, similarity = np.array([0.1, 0.4, 0.6, 0.8]), np.array([0.8, 0.82, 0.86, 0.92])
    expected = equal_norm_ratio(cosine, similarity)
    correlations = correlate_layers(
        table(v_within_of_v=list(expected), self_similarity=list(similarity), equal_norms=list(expected))
    )
    assert correlations["similarity_spearman"] == pytest.approx(1)
    assert correlations["equal_norms_pearson"] == pytest.approx(1)


def test_correlations_are_those_of_the_definition() -> None:
    found = consistency(SURVEY, Choice())
    for pair, (one, other) in PAIRS.items():
        x, y = found[one].to_numpy(), found[other].to_numpy()
        for name, by in (("pearson", pearsonr), ("spearman", spearmanr)):
            theirs, row = by(x, y), found.iloc[0]
            orders = [abs(by(x[list(order)], y).statistic) for order in permutations(range(5))]
            assert row[f"{pair}_{name}"] == pytest.approx(theirs.statistic)
            assert row[f"{pair}_{name}_p"] == pytest.approx(np.mean(np.array(orders) >= orders[0] - 1e-9))
            shifted = [abs(by(np.roll(x, k), y).statistic) for k in range(5)]
            as_strong = np.mean(np.array(shifted) >= shifted[0] - 1e-9)  # equal ones differ by rounding
            assert row[f"{pair}_{name}_shift_p"] == pytest.approx(as_strong)
            assert row[f"{pair}_{name}_step"] == pytest.approx(by(np.diff(x), np.diff(y)).statistic)
        assert (found[f"{pair}_shift_floor"] == 0.2).all()
        assert (found[f"{pair}_layers"] == 5).all()


def test_perfect_rank_agreement_has_a_nonzero_p() -> None:
    correlations = correlate_layers(table(m_of_q=[0.1, 0.2, 0.3, 0.4], mean_cosine=[0.1, 0.2, 0.3, 0.9]))
    assert spearmanr([1, 2, 3, 4], [1, 2, 3, 4]).pvalue == 0  # p by Student's t
    assert correlations["cosine_spearman_p"] == pytest.approx(2 / 24)


@pytest.mark.parametrize(
    ("values", "reason"),
    [([], "fewer than three layers"), ([0.1, 0.2], "fewer than three"), ([0.3] * 4, "one of the two series is")],
)
def test_an_undefined_correlation_has_a_reason(values: list[float], reason: str) -> None:
    correlations = correlate_layers(table(m_of_q=values, mean_cosine=list(range(len(values)))))
    assert np.isnan(correlations["cosine_pearson"])
    assert np.isnan(correlations["cosine_spearman_p"])
    assert reason in str(correlations["cosine_undefined"])


def test_layers_without_a_number_are_excluded() -> None:
    correlations = correlate_layers(table(m_of_q=[0.1, np.nan, 0.2, 0.4], mean_cosine=[0.3, 0.1, 0.4, 0.9]))
    assert correlations["cosine_layers"] == 3
    assert correlations["cosine_pearson"] == pytest.approx(pearsonr([0.1, 0.2, 0.4], [0.3, 0.4, 0.9]).statistic)
