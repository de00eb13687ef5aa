import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from theodolite.measures.formula import formula_of_column
from theodolite.report import Tables, render
from theodolite.report.findings import Finding, collect_findings, collect_warnings
from theodolite.report.findings.anisotropy import attribute_peak
from theodolite.report.findings.tradeoff import find_tradeoff
from theodolite.report.findings.warnings import warn_too_few
from theodolite.report.markdown import render_markdown
from theodolite.report.summary import count_contents
from theodolite.report.tables import populations

Make = Callable[..., Tables]


def findings_by_key(tables: Tables) -> dict[str, Finding]:
    return {one.key: one for one in collect_findings(tables)}


def with_layers(tables: Tables, **columns: dict[str, list[float]]) -> Tables:
    """Put per-population lists of values, one per layer, into the layer table."""
    layers = tables.layers.copy()
    for column, by_population in columns.items():
        for population, values in by_population.items():
            layers.loc[layers["population"] == population, column] = values
    return replace(tables, layers=layers)


@pytest.fixture
def three(make_tables: Make) -> Tables:
    return make_tables(layers=3)


def test_the_first_position_causes_the_peak(three: Tables) -> None:
    tables = with_layers(
        three,
        anisotropy_svd={
            "all": [0.03, 0.99, 0.5],
            "without-first": [0.03, 0.07, 0.06],
            "without-massive": [0.03, 0.07, 0.09],
        },
    )
    assert findings_by_key(tables)["anisotropy_svd"].text == (
        "One direction holds 0.99 of the variance at block 1, the highest of all layers. The first position "
        "causes it: it is 0.07 without the first position and 0.07 without massive activations. "
        "Without massive activations the peak is 0.09, at the final norm. "
        "The population without-massive shows the other positions by themselves."
    )


def test_only_the_first_position_causes_the_peak_and_is_excluded(three: Tables) -> None:
    tables = with_layers(
        three,
        anisotropy_svd={
            "all": [0.03, 0.79, 0.5],
            "without-first": [0.03, 0.07, 0.06],
            "without-massive": [0.03, 0.79, 0.5],
        },
    )
    assert findings_by_key(tables)["anisotropy_svd"].text.endswith(
        "The population without-first shows the other positions by themselves."
    )


def test_the_first_position_does_not_cause_the_peak(three: Tables) -> None:
    tables = with_layers(
        three,
        mean_cosine={
            "all": [0.1, 0.3, 0.52],
            "without-first": [0.1, 0.3, 0.515],
            "without-massive": [0.1, 0.3, 0.51],
        },
    )
    assert findings_by_key(tables)["mean_cosine"].text == (
        "The average cosine of two positions is 0.52 ± 0.004 at the final norm, the highest of all layers. It is "
        "not caused by the first position or massive activations: it is 0.515 without the first position and 0.51 "
        "without massive activations."
    )


@pytest.mark.parametrize(
    ("value", "first", "massive", "words"),
    [
        (0.9, 0.85, 0.1, "Massive activations, not only at the first position, cause it"),
        (0.9, 0.1, 0.85, "The first position causes it"),
        (0.9, 0.6, 0.89, "The first position causes part of it"),
        (0.9, 0.6, 0.6, "The first position and massive activations cause part of it"),
        (0.05, 0.02, 0.02, "The first position and massive activations cause part of it"),
        (0.02, 0.001, 0.001, "It is not caused by the first position or massive activations"),
    ],
)
def test_the_cause_follows_from_both_populations(value: float, first: float, massive: float, words: str) -> None:
    assert attribute_peak(value, {"without-first": first, "without-massive": massive}) == words


def test_one_population_gives_no_cause(make_tables: Make) -> None:
    text = findings_by_key(make_tables(populations=("all",)))["mean_cosine"].text
    assert text.endswith("No other population was measured, so it is not known which positions cause it.")
    text = findings_by_key(make_tables(populations=("without-first",)))["mean_cosine"].text
    assert text.endswith("This is for the population without-first; the population all was not measured.")


def test_the_tightest_tradeoff(three: Tables) -> None:
    same = [np.nan, 0.8, 0.91], [np.nan, -0.7, -0.85]
    names = three.layers["population"].unique()
    tables = with_layers(
        three,
        tradeoff_r2=dict.fromkeys(names, same[0]),
        tradeoff_slope=dict.fromkeys(names, same[1]),
    )
    assert findings_by_key(tables)["tradeoff"].text == (
        "Units whose mean has a larger norm (M) vary less (V). The fit is tightest at the final norm: R² 0.91 "
        "with slope −0.85 over 412 units. With a slope of −1 all units would have the same Q."
    )


def test_a_peak_within_the_error_of_another_names_it(three: Tables) -> None:
    tables = with_layers(three, mean_cosine={"all": [0.1, 0.515, 0.52]})  # the error of both is 0.004
    assert (
        "the highest of all layers; the 0.515 at block 1 is within the error. "
        in findings_by_key(tables)["mean_cosine"].text
    )
    far = with_layers(three, mean_cosine={"all": [0.1, 0.5, 0.52]})
    assert "within the error" not in findings_by_key(far)["mean_cosine"].text


def test_a_negative_slope_is_reported_beside_a_tighter_positive_one(three: Tables) -> None:
    tables = with_layers(three, tradeoff_r2={"all": [0.1, 0.9, 0.3]}, tradeoff_slope={"all": [np.nan, 0.5, -0.4]})
    assert (
        "Of the layers with a negative slope, the fit is tightest at the final norm: R² 0.3 with slope −0.4."
        in (findings_by_key(tables)["tradeoff"].text)
    )


def test_a_rising_fit_is_not_called_a_tradeoff(three: Tables) -> None:
    tables = replace(three, layers=three.layers.assign(tradeoff_slope=0.4))
    assert "No layer has a negative slope." in findings_by_key(tables)["tradeoff"].text
    assert "a larger norm (M) vary more (V)" in findings_by_key(tables)["tradeoff"].text
    assert "−1" not in findings_by_key(tables)["tradeoff"].text
    assert "no trade-off" in findings_by_key(tables)["tradeoff"].headline


def test_the_range_of_dimension(three: Tables) -> None:
    tables = with_layers(
        replace(three, layers=three.layers.drop(columns=["twonn"])),
        effective_rank={"all": [90, 2, 60], "without-first": [90, 40, 60], "without-massive": [90, 40, 60]},
        participation_ratio={name: [50, 20, 30] for name in three.layers["population"].unique()},
    )
    assert findings_by_key(tables)["dimension"].text == (
        "Effective rank from 2 at block 1 to 90 at the embeddings; participation ratio from 20 at block 1 to 50 "
        "at the embeddings, in 384 coordinates. Without massive activations: effective rank from 40 at block 1 "
        "to 90 at the embeddings (population without-massive)."
    )


def test_effective_rank_is_compared_with_twonn(three: Tables) -> None:
    tables = with_layers(three, effective_rank={"all": [90, 2, 60]}, twonn={"all": [20, 9, 11]})
    assert (
        "At the final norm the variance spreads over 60 directions, and nearest neighbours give 11 ± 0.4 "
        "dimensions (TwoNN)." in findings_by_key(tables)["dimension"].text
    )


def test_warnings_report_counts_and_layers(three: Tables) -> None:
    tables = with_layers(
        replace(three, layers=three.layers.assign(undefined=None, massive=0, sample_duplicates=0)),
        zero={"all": [0, 7, 2]},
        nonfinite={"all": [0, 0, 1]},
        sample_duplicates={"all": [1, 0, 0]},
    )
    assert collect_warnings(tables) == [
        "1 of 131,073 positions is not finite at the final norm. Values that are not finite are excluded from "
        "every number.",
        "7 of 131,072 positions are exactly zero at block 1, the highest count of 2 layers. A zero vector has "
        "no direction and does not contribute to the mean cosine.",
        "1 of the 4,097 sampled vectors at the embeddings is a duplicate, removed before TwoNN, which uses "
        "4,096 vectors at this layer.",
    ]


def test_the_warning_on_massive_activations_gives_advice(make_tables: Make) -> None:
    def way(*populations: str) -> str:
        return next(text for text in collect_warnings(make_tables(populations=populations)) if "massive" in text)

    assert way("all", "without-massive").endswith(
        "norms of all positions; the population without-massive excludes them."
    )
    assert way("all").endswith("; to exclude them, survey again with --populations all,without-massive.")
    assert way("without-first").endswith("a few of them can dominate its variance, spectrum and norms.")


def test_what_is_not_finite_is_counted_among_all(three: Tables) -> None:
    # n counts those that are finite.
    tables = with_layers(three, n={"all": [599, 600, 600]}, nonfinite={"all": [1, 0, 0]}, zero={"all": [2, 0, 0]})
    found = collect_warnings(tables)
    assert found[0].startswith("1 of 600 positions is not finite at the embeddings. ")
    assert found[1].startswith("2 of 599 positions are exactly zero at the embeddings. ")
    less = replace(tables, layers=tables.layers.drop(columns="n"))
    assert collect_warnings(less)[0].startswith("1 position is not finite")


def test_too_few_vectors_for_their_dimension_are_reported_first(three: Tables) -> None:
    assert warn_too_few(three) == ""
    few = replace(three, layers=three.layers.assign(n=4))
    assert warn_too_few(few) == (
        "4 positions in 384 dimensions: ranks and dimensions are bounded by the number of vectors, not by the "
        "model."
    )
    assert 0 < render([few]).index(warn_too_few(few)) < render([few]).index('class="card"')
    assert warn_too_few(few) in render_markdown([few])
    some = replace(three, layers=three.layers.assign(n=2000))
    assert "2,000 positions in 384 dimensions: with fewer than 10 per dimension" in warn_too_few(some)


def test_many_duplicates_make_layers_incomparable(three: Tables) -> None:
    tables = with_layers(three, sample_duplicates={"all": [2904, 4, 4]}, twonn_n={"all": [1192, 4092, 4092]})
    assert (
        "2,904 of the 4,096 sampled vectors at the embeddings are duplicates, removed before TwoNN, which uses "
        "1,192 vectors at this layer and 4,092 at another. It depends on their number, so compare layers "
        "with care."
    ) in collect_warnings(tables)


def test_near_duplicates_and_jumps_of_the_dimension_are_stated(three: Tables) -> None:
    assert not [one for one in collect_warnings(three) if "scales" in one or "not exact" in one]
    tables = with_layers(three, sample_near_duplicates={"all": [0, 410, 1]}, scale_jump={"all": [1.2, 1.9, 21.7]})
    near, jump = (one for one in collect_warnings(tables) if "scales" in one or "not exact" in one)
    assert near.startswith("410 of the duplicates at block 1 are not exact, but far closer to another vector")
    assert jump.startswith(
        "The intrinsic dimension changes by a factor of 22 between adjacent scales at the final norm."
    )


def test_undefined_measures_are_listed_by_reason(three: Tables) -> None:
    reasons = {
        "v_within": "no units",
        "tradeoff_r2": "no units",
        "mev": "made without --contextuality",
        "q_se": "few",
    }
    tables = replace(three, layers=three.layers.assign(undefined=json.dumps(reasons)))
    assert collect_warnings(tables)[-1] == (
        "Undefined at one or more layers: v_within, tradeoff_r2 (no units). The column undefined of "
        "layers.parquet states where and why."
    )


def test_a_clean_survey_has_no_warnings(three: Tables) -> None:
    clean = three.layers.assign(zero=0, nonfinite=0, massive=0, sample_duplicates=0, undefined=None)
    assert collect_warnings(replace(three, layers=clean)) == []


def test_an_empty_survey_has_no_findings(three: Tables) -> None:
    empty = replace(three, layers=pd.DataFrame({"layer": [], "population": []}))
    assert collect_findings(empty) == []
    assert collect_warnings(empty) == []


def rogue_of(three: Tables, **columns: list[float]) -> Tables:
    ordinary: dict[str, list[float]] = {
        "mean_cosine": [0.1, 0.6, 0.7],
        "rogue_coordinate": [7, 17, 17],
        "rogue_cosine_share": [0.2, 0.5, 0.86],
        "rogue_half": [10, 2, 1],
        "rogue_variance_coordinate": [7, 9, 9],
        "rogue_variance_share": [0.01, 0.02, 0.03],
    }
    return with_layers(three, **{column: {"all": values} for column, values in (ordinary | columns).items()})


def test_a_rogue_coordinate_and_where_it_leads(three: Tables) -> None:
    found = findings_by_key(rogue_of(three))["rogue"]
    assert found.figure == "86%"
    assert found.text == (
        "Coordinate 17 contributes 86% of the mean cosine of 0.7 at the final norm. It contributes most at 2 of 3 "
        "layers, and 1 other coordinate at the remaining ones."
    )
    same = findings_by_key(rogue_of(three, rogue_coordinate=[17, 17, 17], rogue_half=[10, 2, 3]))["rogue"].text
    assert (
        "; 3 of 384 coordinates contribute half of it. The same coordinate contributes most at all 3 layers."
        in same
    )
    moving = findings_by_key(rogue_of(three, rogue_coordinate=[5, 5, 17]))["rogue"].text
    assert moving.endswith("changes with depth: 17 at 1 of 3 layers, 5 at 2; 2 coordinates in all.")


def test_a_share_above_one_is_explained(three: Tables) -> None:
    found = findings_by_key(rogue_of(three, rogue_cosine_share=[0.2, 0.5, 1.05]))
    assert found["rogue"].figure == "105%"
    assert "105% of the mean cosine of 0.7 at the final norm; the other coordinates together subtract 5%." in (
        found["rogue"].text
    )


def test_the_mean_cosine_names_its_dominant_coordinate(three: Tables) -> None:
    text = findings_by_key(rogue_of(three))["mean_cosine"].text
    assert "the highest of all layers. Coordinate 17 contributes 86% of it. " in text
    assert (
        "oordinate" not in findings_by_key(rogue_of(three, rogue_cosine_share=[0.9, 0.9, 0.4]))["mean_cosine"].text
    )


def test_an_interval_stays_within_the_limits_of_the_measure(three: Tables) -> None:
    tables = with_layers(three, tradeoff_r2={"all": [0.1, 0.8863, 0.3]}, tradeoff_r2_se={"all": [0.1, 0.3, 0.1]})
    assert "R² 0.8863 (0.59 to 1) with slope" in findings_by_key(tables)["tradeoff"].text
    tables = with_layers(three, mean_cosine={"all": [0.1, 0.2, -0.001]}, mean_cosine_se={"all": [0.1, 0.3, 0.1]})
    assert (
        "average cosine of two positions is 0.2 ± 0.3" in findings_by_key(tables)["mean_cosine"].text
    )  # a cosine may be below 0


def test_a_share_of_a_tiny_cosine_is_not_rogue(three: Tables) -> None:
    # A mean cosine that is 0 within its error of 0.004 has shares of any size.
    tables = rogue_of(three, mean_cosine=[0.007, 0.6, 0.7], rogue_cosine_share=[55.0, 0.02, 0.03])
    assert findings_by_key(tables)["rogue"].figure == "3%"
    assert "no rogue" in findings_by_key(tables)["rogue"].headline
    assert "rogue" not in findings_by_key(rogue_of(three, mean_cosine=[0.0, 0.001, -0.5]))


def test_variance_in_one_coordinate_caused_by_massive_activations(three: Tables) -> None:
    tables = rogue_of(three, rogue_variance_share=[0.01, 0.98, 0.03])
    assert findings_by_key(tables)["rogue"].text.endswith("Coordinate 9 has 98% of the variance at block 1.")
    tables = with_layers(tables, rogue_variance_share={"without-massive": [0.01, 0.06, 0.03]})
    assert findings_by_key(tables)["rogue"].text.endswith(
        "of the variance at block 1; without massive activations no coordinate has more than 6% there."
    )


def test_contextuality_is_reported_relative_to_any_two_positions(three: Tables) -> None:
    tables = with_layers(
        three,
        self_similarity={"all": [0.9, 0.7, 0.8]},
        self_similarity_se={"all": [0.01, 0.01, 0.01]},
        self_similarity_adjusted={"all": [0.8, 0.2, 0.1]},
        self_similarity_units={"all": [50, 50, 50]},
        intra_similarity={"all": [0.3, 0.5, 0.4]},
        intra_similarity_adjusted={"all": [0.2, 0.1, -0.1]},
        mev={"all": [0.9, 0.3, 0.4]},
        mev_chance={"all": [0.2, 0.25, np.nan]},
    )
    assert findings_by_key(tables)["contextuality"].text == (
        "Occurrences of the same unit are least similar at the final norm, with an average cosine of 0.8 ± 0.01 "
        "(0.1 above that of any two positions), and most similar at the embeddings, with 0.9 ± 0.01 (0.8 above "
        "that of any two positions) over 50 units. Positions of the same window are most similar at the "
        "embeddings: intra-sentence similarity 0.3, 0.2 above that of any two positions. One direction explains "
        "from 0.3 (at block 1; 0.25 for vectors of any units) to 0.9 (at the embeddings; 0.2 for vectors of any "
        "units) of a unit's variance on average (MEV)."
    )


def test_a_finding_names_its_column_its_chart_and_its_definition(three: Tables) -> None:
    found = findings_by_key(rogue_of(three))
    assert {one.column for one in found.values()} == {
        "mean_cosine", "anisotropy_svd", "m_of_q", "tradeoff_r2", "effective_rank", "rogue_cosine_share",
        "norm_p50",
    }  # fmt: skip
    known = formula_of_column() | {"m_of_q": "qmv/all"}
    assert all(one.formula == known[one.column] for one in found.values())
    assert all(one.chart for one in found.values())
    three.facts["formulas"] = {"layers": {"mean_cosine": "mean-cosine/as-it-was"}}
    assert findings_by_key(three)["mean_cosine"].formula == "mean-cosine/as-it-was"


@pytest.mark.parametrize("facts", [{}, {"formulas": None}, {"formulas": {"layers": 3}}, {"formulas": []}])
def test_an_old_survey_has_the_definitions_of_this_version(three: Tables, facts: dict[str, object]) -> None:
    assert findings_by_key(replace(three, facts=facts))["norms"].formula == "norm-quantiles/log-histogram"


def test_one_column_at_a_time_may_be_missing(three: Tables) -> None:
    tables = rogue_of(three)
    for column in tables.layers.columns.drop(["layer", "population"]):
        less = replace(tables, layers=tables.layers.drop(columns=column))
        assert len(collect_findings(less)) >= 5, column
        collect_warnings(less)


def test_a_decoder_is_reported_without_sinks_and_compared_with_all_positions(make_tables: Make) -> None:
    """`without-sinks` comes first in menus, tables and findings; counts and warnings are of all positions."""
    names = ("all", "without-first", "without-massive", "without-sinks")
    made = make_tables(layers=3)
    sinks = made.layers.query("population == 'without-massive'").assign(population="without-sinks")
    facts = made.facts | {"model": {"name": "d", "causal": True}, "populations": list(names)}
    decoder = replace(made, facts=facts, layers=pd.concat([made.layers, sinks], ignore_index=True))
    encoder = replace(decoder, facts=decoder.facts | {"model": {"name": "e", "causal": False}})
    assert populations(encoder) == list(names)
    assert populations(decoder) == ["without-sinks", *names[:3]]
    values = {name: [0.1, 0.99, 0.2] for name in names} | {"without-sinks": [0.1, 0.2, 0.3]}
    found = findings_by_key(with_layers(decoder, anisotropy_svd=values))
    assert found["anisotropy_svd"].figure == "0.3"
    assert "This is for the population without-sinks; with all positions it is 0.2, and at most 0.99" in (
        found["anisotropy_svd"].text
    )
    assert all("without-sinks" in one.text for one in found.values())
    assert count_contents(decoder) == count_contents(encoder)


def test_the_slope_without_noise_is_stated_with_what_it_assumes(three: Tables) -> None:
    plain = find_tradeoff(three)
    assert plain is not None
    assert "noise" not in plain.text
    numbers = {"tradeoff_slope_corrected": -0.97, "tradeoff_slope_corrected_se": 0.02}
    found = find_tradeoff(replace(three, layers=three.layers.assign(**numbers)))
    assert found is not None
    assert (
        "Corrected for the noise of M, which flattens it, the slope is −0.97 ± 0.02, as if the occurrences of a "
        "unit were independent."
    ) in found.text
