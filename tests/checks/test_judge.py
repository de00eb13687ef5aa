"""Rules against numbers: limits, nulls, tests over groups of documents, and Holm's correction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.checks.subjects import draw, make_subject

from theodolite.checks.judge import judge
from theodolite.checks.rules import parse_rules
from theodolite.checks.subject import Subject
from theodolite.errors import InputError


def ask(subject: Subject, baseline: Subject, *rules: dict[str, Any], level: float = 0.05) -> list[Any]:
    return judge(subject, baseline, parse_rules({"level": level, "rule": list(rules)}, "rules"))


def with_column(values: list[float | None], name: str = "rank") -> Subject:
    column = pd.Series(values, dtype="Float64")
    return make_subject({"q": draw(np.random.default_rng(0), len(values))}, **{name: list(column)})


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ({"absolute": 1.0}, [False, False, False]),
        ({"absolute": 0.9}, [False, True, False]),
        ({"relative": 0.1}, [False, False, False]),
        ({"relative": 0.09}, [False, True, False]),
        ({"absolute": 0.5, "relative": 0.05}, [False, False, False]),  # the two are added
        ({"min": 10.5}, [True, False, True]),
        ({"max": 10.5}, [False, True, False]),
        ({"equal": True}, [False, True, False]),
    ],
)
def test_limits_are_about_the_difference_or_the_number(rule: dict[str, Any], broken: list[bool]) -> None:
    (outcome,) = ask(with_column([10.0, 11.0, 10.0]), with_column([10.0, 10.0, 10.0]), {"column": "rank", **rule})
    assert [cell.broken for cell in outcome.cells] == broken
    assert outcome.broken == any(broken)


def test_an_undefined_number_breaks_a_rule_unless_both_are_undefined() -> None:
    rule = {"column": "rank", "absolute": 1.0}
    none, some = with_column([None, 1.0]), with_column([1.0, 1.0])
    assert not ask(none, none, rule)[0].broken
    (outcome,) = ask(none, some, rule)
    assert outcome.broken
    assert outcome.sentence == "rank at layer 0 (block 0): undefined, baseline 1"
    assert ask(some, none, rule)[0].broken
    assert ask(none, none, {"column": "rank", "max": 5})[0].broken


def test_a_paired_test_is_that_of_the_differences_by_group() -> None:
    """The same documents: the numbers vary by 1, the differences by 0.01."""
    rng = np.random.default_rng(1)
    values = draw(rng)
    moved = values + 0.05 + 0.01 * rng.normal(size=values.shape)
    subject, baseline = make_subject({"q": moved}), make_subject({"q": values})
    (outcome,) = ask(subject, baseline, {"column": "q", "test": True})
    expected = stats.ttest_rel(moved, values, axis=1).pvalue  # the jackknife of a mean is its standard error
    np.testing.assert_allclose([cell.p for cell in outcome.cells], expected, rtol=1e-6)
    assert outcome.broken
    apart = make_subject({"q": moved}, corpus="other")
    assert not ask(apart, baseline, {"column": "q", "test": True})[0].broken  # other documents hide it
    (ignoring,) = ask(subject, baseline, {"column": "q", "test": True, "ignore": 0.01})
    assert not ignoring.broken  # 0.05 of 10 is less than 1%


def test_an_independent_test_is_welchs() -> None:
    rng = np.random.default_rng(2)
    one, two = draw(rng), 3 * draw(rng, groups=12)
    (outcome,) = ask(
        make_subject({"q": one}), make_subject({"q": two}, corpus="other"), {"column": "q", "test": True}
    )
    expected = stats.ttest_ind(one, two, axis=1, equal_var=False).pvalue
    np.testing.assert_allclose([cell.p for cell in outcome.cells], expected, rtol=1e-6)


@pytest.mark.slow
def test_holm_counts_the_tests_of_all_rules() -> None:
    """Of 60 numbers of the same source, about three are below 0.05 by chance: rules without correction break."""
    alarms = raw = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        sides = [
            make_subject({name: draw(rng, 5) for name in ("q", "v", "mean_cosine")}, corpus=str(side))
            for side in range(2)
        ]
        rules = [{"column": name, "test": True} for name in ("q", "v", "mean_cosine")]
        outcomes = ask(*sides, *rules)
        alarms += any(outcome.broken for outcome in outcomes)
        raw += any(cell.p <= 0.05 for outcome in outcomes for cell in outcome.cells)
    assert alarms <= 0.05 * 200 + 2 * np.sqrt(200 * 0.05 * 0.95)
    assert raw > 0.2 * 200  # what testing each at 0.05 would give


def test_shares_are_computed_from_their_parts() -> None:
    values = draw(np.random.default_rng(0))
    sides = [make_subject({"q": values}, m=[m, m, m]) for m in (2.0, 1.0)]
    (outcome,) = ask(*sides, {"column": "m_of_q", "absolute": 0.01, "layers": 1})
    assert outcome.cells[0].value == pytest.approx(2.0 / values[1].mean())
    assert outcome.broken


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"column": "rnk", "max": 1}, "the table layers of run has no column 'rnk'. Did you mean 'rank'?"),
        ({"column": "rank", "max": 1, "layers": 9}, "rules, rule 1: layers 9: this survey has layers 0 to 1."),
        ({"column": "rank", "max": 1, "population": "some"}, "run has no population 'some'. It has all."),
        ({"column": "rank", "max": 1, "table": "tokns"}, "run has no table 'tokns'."),
        ({"column": "rank", "test": True}, "layers.rank is not known by group of documents"),
        ({"column": "layer_name", "max": 1}, "layer_name is text; only equal = true can be asked of it"),
        ({"column": "rank", "max": 1, "where": {"unit": "a"}}, "has no column 'unit' to select rows by"),
        ({"column": "value", "table": "jackknife", "max": 1}, "selects several rows of jackknife"),
        ({"column": "documents", "table": "counts", "max": 1, "layers": 1}, "the table counts has no layers"),
        ({"column": "documents", "table": "counts", "max": 1, "population": "all"}, "has no populations"),
        ({"column": "mean", "table": "vectors", "test": True}, "only stores have a table 'vectors'"),
    ],
)  # fmt: skip
def test_rules_that_name_what_is_missing_are_explained(rule: dict[str, Any], message: str) -> None:
    subject = with_column([1.0, 2.0])
    with pytest.raises(InputError) as caught:
        ask(subject, subject, rule)
    assert message in caught.value.message


def test_too_few_documents_cannot_be_tested() -> None:
    few = make_subject({"q": draw(np.random.default_rng(0), groups=6)}, corpus="few", name="few")
    few.table("layers")["q_se"] = np.nan
    with pytest.raises(
        InputError, match="q has no standard error at layer 0 of few, which needs at least 10 groups"
    ):
        ask(few, with_column([1.0, 2.0, 3.0]), {"column": "q", "test": True})


def test_layers_and_models_that_differ_are_named() -> None:
    two, three = with_column([1.0, 2.0]), with_column([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match=r"has other layers than run: tiny \(Tiny\), layers 0 to 2 there"):
        ask(two, three, {"column": "rank", "max": 9})
    other = with_column([1.0, 2.0])
    other.facts["model"] = {"name": "big", "architecture": "Big"}
    with pytest.raises(InputError, match=r"is of another model than run: big \(Big\) there, tiny \(Tiny\) here"):
        ask(two, other, {"column": "rank", "max": 9})
    words = with_column([1.0, 2.0])
    words.facts["units"] = "word"
    with pytest.raises(InputError, match="has --units word, and run has --units id"):
        ask(two, words, {"column": "rank", "max": 9})
