from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from theodolite.report import Tables
from theodolite.report.findings import Finding
from theodolite.report.findings.comparison import compare_surveys, comparison_cautions, shared_population

Make = Callable[..., Tables]


def findings_by_key(surveys: list[Tables]) -> dict[str, Finding]:
    return {one.key: one for one in compare_surveys(surveys)}


def with_cosine(tables: Tables, values: list[float], error: float = 0.004) -> Tables:
    layers = tables.layers.copy()
    for name in layers["population"].unique():
        layers.loc[layers["population"] == name, "mean_cosine"] = values
    return replace(tables, layers=layers.assign(mean_cosine_se=error))


@pytest.fixture
def pair(make_tables: Make) -> list[Tables]:
    return [make_tables(name, layers=3, units=20, peak=0.12) for name in ("a", "b")]


def test_the_highest_is_named_with_the_next(pair: list[Tables]) -> None:
    a, b = with_cosine(pair[0], [0.1, 0.2, 0.3]), with_cosine(pair[1], [0.1, 0.6, 0.3])
    assert findings_by_key([a, b])["together-cosine"].text == (
        "The highest mean cosine is 0.6 ± 0.004 at block 1 in b; the next is 0.3 ± 0.004 at the final norm in a."
    )


def test_values_within_the_errors_are_not_ranked(pair: list[Tables]) -> None:
    a, b = with_cosine(pair[0], [0.1, 0.2, 0.3], 0.02), with_cosine(pair[1], [0.1, 0.2, 0.33], 0.02)
    found = findings_by_key([a, b])
    assert "the difference is within the errors" in found["together-cosine"].text
    assert "the next is" not in found["together-cosine"].text
    # Nor without errors, where less than 5% is between them.
    assert "the difference is below 5%" in found["together-rank"].text
    assert found["together-change"].figure == "none"


def test_two_surveys_with_the_same_layers_are_compared(pair: list[Tables]) -> None:
    a, b = with_cosine(pair[0], [0.1, 0.2, 0.3], 0.003), with_cosine(pair[1], [0.1, 0.5, 0.2], 0.004)
    found = findings_by_key([a, b])["together-change"]
    # The error of a difference is sqrt(0.003^2 + 0.004^2) = 0.005.
    assert found.text == (
        "From a to b: mean cosine 0.2 to 0.5 at block 1 (+0.3 ± 0.005). No change beyond the errors: "
        "effective rank, TwoNN, R² of V on M."
    )
    assert (found.figure, found.place) == ("+0.3", "at block 1")


def test_the_widest_of_many_layers_needs_three_errors(pair: list[Tables]) -> None:
    a, b = with_cosine(pair[0], [0.1, 0.2, 0.3], 0.01), with_cosine(pair[1], [0.1, 0.235, 0.3], 0.01)
    assert findings_by_key([a, b])["together-change"].figure == "none"  # 0.035 is 2.5 errors


def test_surveys_with_other_layers_are_not_compared(make_tables: Make, pair: list[Tables]) -> None:
    assert "together-change" not in findings_by_key([pair[0], make_tables("c", layers=5, units=20)])


def test_massive_activations_that_cause_the_lowest_rank_are_named(make_tables: Make) -> None:
    surveys = [make_tables("a", layers=6, units=20), make_tables("b", layers=6, units=20, peak=0.3, without=0.3)]
    text = findings_by_key(surveys)["together-rank"].text
    assert "Without massive activations it is " in text
    assert text.endswith(" in b (population without-massive).")


def test_cautions_of_a_comparison(pair: list[Tables]) -> None:
    a, b = pair
    assert comparison_cautions(pair) == []
    other = replace(
        b, facts={**b.facts, "units": "word", "corpus": {"name": "tales", "sha256": "9"}},
        layers=b.layers.assign(twonn_n=900),
    )  # fmt: skip
    assert comparison_cautions([a, other]) == [
        "The surveys use different corpora (chitchat, tales): part of a difference may come from the corpus.",
        "The surveys use different units (id, word): V_W, V_B and the trade-off are not comparable.",
        "TwoNN uses 900 vectors in one survey and 4,096 in another. It depends on their number, so compare it "
        "only for equal numbers.",
    ]


def test_different_documents_of_one_corpus_are_reported_with_their_number(pair: list[Tables]) -> None:
    a, b = (
        replace(one, facts={**one.facts, "corpus": {"name": "mytext.txt", "sha256": str(size), "documents": size}})
        for one, size in zip(pair, (250, 60), strict=True)
    )
    assert comparison_cautions([a, b]) == [
        "The surveys use different documents of mytext.txt (250 and 60). Part of a difference may come from the "
        "corpus."
    ]
    b.facts["corpus"]["documents"] = 250
    assert comparison_cautions([a, b])[0].startswith("The surveys use different documents of mytext.txt. Part")


def test_an_interval_of_r2_stays_below_1(pair: list[Tables]) -> None:
    a, b = (replace(one, layers=one.layers.assign(tradeoff_r2_se=0.3)) for one in pair)
    text = findings_by_key([a, b])["together-tradeoff"].text
    assert " to 1)" in text
    assert "±" not in text


def test_nothing_is_compared_without_a_common_population(make_tables: Make) -> None:
    surveys = [make_tables(name, layers=2, units=20, populations=(name,)) for name in ("all", "without-first")]
    assert shared_population(surveys) == ""
    assert compare_surveys(surveys) == []
    assert "No population was measured in all surveys" in comparison_cautions(surveys)[0]


def test_one_survey_and_empty_ones_have_no_comparison(pair: list[Tables]) -> None:
    assert compare_surveys(pair[:1]) == []
    bare = replace(pair[0], facts={}, layers=pair[0].layers[["layer", "population"]])
    assert compare_surveys([bare, bare]) == []
    assert comparison_cautions([bare, bare]) == []
    nothing = replace(pair[0], layers=pair[0].layers.assign(mean_cosine=np.nan, effective_rank=np.inf))
    assert "together-cosine" not in findings_by_key([nothing, pair[1]])
