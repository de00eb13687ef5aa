"""The verdict on hard cases: nulls, one layer, vectors, decoders with sinks, series, and the reference ranges."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.conftest import make, vectors

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.report import Tables, render
from theodolite.report.references import MEASURES, find_kind, find_reference, measure_span, read_table
from theodolite.report.tables import Steps
from theodolite.report.verdict import collect_readings, describe_series_verdict, describe_verdict

ENCODER = {"name": "mine", "modality": "text", "causal": False}
DECODER = {"name": "mine", "modality": "text", "causal": True}


def change(tables: Tables, model: dict[str, Any] | None = None, **columns: Any) -> Tables:
    facts = {**tables.facts, **({"model": model} if model else {})}
    return replace(tables, facts=facts, layers=tables.layers.assign(**columns))


@pytest.mark.parametrize(
    ("cosine", "words"),
    [
        (-0.2, "hardly any direction"),
        (0.099, "hardly any direction"),
        (0.0999, "weakly (mean cosine of up to 0.1"),  # the words agree with the number as printed
        (0.3, "clearly"),
        (0.6, "strongly"),
        (0.95, "almost the same direction"),
    ],
)
def test_the_words_follow_the_highest_mean_cosine(cosine: float, words: str) -> None:
    assert words in describe_verdict(change(make(), mean_cosine=cosine))


def test_it_is_one_sentence_about_the_worst_layers() -> None:
    text = describe_verdict(make(peak=0.12))
    assert text.count(". ") == 0
    assert text.endswith(".")
    layers = make(peak=0.12).layers
    base = layers[layers["population"] == "all"]
    assert f"at {base.loc[base['mean_cosine'].idxmax(), 'layer_name']}" in text
    least = base["effective_rank"].min()
    assert f"effective rank at least {least:.3g} of 384 dimensions" in text


def test_undefined_measures_are_called_undefined_with_their_reason() -> None:
    why = json.dumps({"mean_cosine": "no vector has a direction"})
    no_cosine = change(make(), mean_cosine=np.nan, undefined=why)
    assert describe_verdict(no_cosine).startswith(
        "The mean cosine is undefined (no vector has a direction); the vec"
    )
    assert "the effective rank is undefined" in describe_verdict(change(make(), effective_rank=np.nan))
    nothing = describe_verdict(change(no_cosine, effective_rank=np.nan))
    assert nothing == "Neither the mean cosine nor the effective rank is defined (no vector has a direction)."
    empty = replace(make(), layers=pd.DataFrame({"layer": [], "population": []}))
    assert "no layers" in describe_verdict(empty)
    assert collect_readings(empty) == []


def test_too_few_vectors_give_no_dimension() -> None:
    few = change(make(peak=0.12), n=3839)
    assert "3,839 vectors are too few to judge how many of 384 dimensions they use" in describe_verdict(few)
    assert [one.measure.key for one in collect_readings(few)] == ["mean_cosine", "twonn"]
    assert "too few" not in describe_verdict(change(make(peak=0.12), n=3840))


def test_one_layer_and_vectors_have_no_range() -> None:
    assert "up to" not in describe_verdict(make(layers=1))
    text = describe_verdict(vectors(mean_cosine=0.4))
    assert "position" not in text
    assert "layer" not in text
    assert "coordinate 7 alone makes up 98% of that cosine" in text
    assert {one.word for one in collect_readings(vectors())} == {""}


def test_positions_that_cause_the_peak_are_named_and_values_that_are_not_finite_come_first() -> None:
    text = describe_verdict(make())
    assert "the first position causes this: without it the mean cosine is 0.1 there" in text
    broken = describe_verdict(change(make(), nonfinite=2))
    assert "2 vectors are not finite" in broken
    assert "causes this" not in broken


def decoder(all_cosine: float, all_rank: float) -> Tables:
    tables = make(populations=("all", "without-first"), peak=0.12)
    layers = tables.layers.replace({"population": {"without-first": "without-sinks"}})
    whole = layers["population"] == "all"
    layers = layers.assign(
        mean_cosine=np.where(whole, all_cosine, 0.2), effective_rank=np.where(whole, all_rank, 100.0)
    )
    facts = {**tables.facts, "model": DECODER, "populations": ["all", "without-sinks"]}
    return replace(tables, facts=facts, layers=layers)


@pytest.mark.parametrize(
    ("cosine", "rank", "remark"),
    [
        (0.99, 1.0, "with sinks, which are left out, the mean cosine would be up to 0.99"),
        (0.21, 1.3, "with sinks, which are left out, the effective rank would fall to 1.3"),
        (0.21, 90.0, ""),
    ],
)
def test_a_decoder_is_judged_without_its_sinks(cosine: float, rank: float, remark: str) -> None:
    text = describe_verdict(decoder(cosine, rank))
    assert "mean cosine of up to 0.2," in text
    assert (remark in text) if remark else ("sinks" not in text)


def test_a_value_is_high_or_low_only_outside_the_range_as_printed() -> None:
    reference = find_reference("encoder", "all", "mean_cosine")
    assert reference is not None
    cases = {reference.high: "usual", reference.high + 0.2: "high", reference.low / 2: "low"}
    for value, word in cases.items():
        readings = collect_readings(change(make(peak=0.12), ENCODER, mean_cosine=value))
        assert readings[0].word == word, value
        assert "encoders measured here" in readings[0].describe_reference()
    named = collect_readings(change(make(), {**ENCODER, "name": reference.models[0]}, mean_cosine=reference.high))
    assert named[0].word == "reference"  # it is within the range because it made the range


@pytest.mark.parametrize(
    ("above", "error", "word"), [(0.1, 0.04, "high"), (0.1, 0.06, "usual"), (0.1, np.nan, "high")]
)
def test_a_value_is_outside_the_range_if_its_interval_is(above: float, error: float, word: str) -> None:
    reference = find_reference("encoder", "all", "mean_cosine")
    assert reference is not None
    value = change(make(), ENCODER, mean_cosine=reference.high + above, mean_cosine_se=error)
    assert collect_readings(value)[0].word == word


def test_only_models_of_the_same_kind_and_population_are_compared() -> None:
    assert find_kind({"model": {**DECODER, "modality": "vision"}}) == "vision"
    assert find_kind({"model": {**DECODER, "modality": "smell"}}) == ""
    assert find_kind({"model": ENCODER, "layers": [{"stack": "encoder"}, {"stack": "decoder"}]}) == ""
    assert find_kind({"model": None}) == find_kind({}) == ""
    assert find_reference("encoder", "without-first", "mean_cosine") is None
    first = change(make(populations=("without-first",)), ENCODER)
    assert {one.word for one in collect_readings(first)} == {""}


def test_the_table_of_references_is_complete() -> None:
    rows = read_table()
    assert {row["model"] for row in rows} == set(MODELS)
    assert {row["measure"] for row in rows} <= {one.key for one in MEASURES}
    for row in rows:
        assert all(row.values())
        assert float(row["lowest"]) <= float(row["highest"])
        if row["measure"] == "effective_rank_share":  # bounded by the number of vectors otherwise
            assert int(row["positions"]) >= 10 * int(row["coordinates"])


def test_a_span_is_the_naive_minimum_and_maximum() -> None:
    tables = make()
    rows = tables.layers[tables.layers["population"] == "all"]
    found = [measure_span(tables, "all", one) for one in MEASURES]
    naive = [rows["mean_cosine"], rows["effective_rank"] / rows["dim"], rows["twonn"]]
    assert [(one.low, one.high) for one in found if one] == [(each.min(), each.max()) for each in naive]
    assert measure_span(change(tables, twonn=math.nan), "all", MEASURES[2]) is None


def steps(curve: Callable[[int], float]) -> Tables:
    layers = make(layers=3, populations=("all",)).layers
    frames = [layers.assign(step=at, mean_cosine=curve(at), mean_cosine_se=0.01) for at in (0, 10, 200)]
    return Steps("series", {}, pd.concat(frames, ignore_index=True)).tables


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (lambda at: 0.1 + at / 400, "From step 0 to 200 the mean cosine rose from 0.1 to 0.6"),
        (lambda at: 0.6 - at / 400, "the mean cosine fell from 0.6 to 0.1"),
        (lambda at: 0.3, "the mean cosine stayed at 0.3"),
        (lambda at: 0.9 if at == 10 else 0.3, "the mean cosine changed and returned to 0.3"),
    ],
)
def test_a_series_is_judged_by_its_first_and_last_step(curve: Callable[[int], float], words: str) -> None:
    assert words in describe_series_verdict(steps(curve))


def test_a_series_of_one_step_has_no_change() -> None:
    one = steps(lambda at: 0.3)
    single = replace(one, layers=one.layers[one.layers["step"] == 0])
    assert describe_series_verdict(single).startswith("No main measure is defined at two or more steps")


def test_every_survey_has_its_verdict_before_anything_else() -> None:
    page = render([make("a", peak=0.12), make("b")]).split('id="data"')[0]
    assert page.count('class="judgement"') == 2
    assert page.index('class="judgement"') < page.index('data-part="side-by-side"') < page.index('id="compare"')
    assert page.index('data-part="side-by-side"') < page.index('class="card"')
