"""The order of drift and sharpness is reported only if directions agree and not all norms grow alike."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.synthetic_series import make_series

from theodolite.studies.series.leads import describe_leads, make_lead_table

STEPS = (1, 2, 4, 8, 16, 32, 64)


def rise(middle: float) -> np.ndarray:
    """Return a rise from 0.1 to 0.9 about a step, in log2 steps. (steps,)"""
    return 0.1 + 0.8 / (1 + np.exp(3 * (middle - np.log2(STEPS))))


def order_of(**curves: np.ndarray) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], str], list[str]]:
    """Return order, reason and sentences of a series whose blocks all follow these curves."""
    series = make_series(steps=STEPS)
    table = series.tables["attention"]
    place = {step: at for at, step in enumerate(STEPS)}
    planted = {"state_norm": np.ones(len(STEPS)), "attention_entropy_share": 1 - rise(4.5)} | curves
    for measure, values in planted.items():
        table[measure] = [values[place[step]] for step in table["step"]]
    leads = make_lead_table(series.as_survey_data())
    rows = leads[(leads["population"] == "all") & (leads["layer"].isna())]
    pairs = list(zip(rows["drift"], rows["sharpness"], strict=True))
    reasons = [json.loads(one).get("order", "") if isinstance(one, str) else "" for one in rows["undefined"]]
    return (
        dict(zip(pairs, rows["order"], strict=True)),
        dict(zip(pairs, reasons, strict=True)),
        describe_leads(leads, "all"),
    )


NORM, COSINE = ("state_mean_norm", "attention_max"), ("state_cosine", "attention_max")


def test_a_rise_before_sharper_attention_is_a_drift_that_comes_first() -> None:
    orders, reasons, lines = order_of(state_mean_norm=rise(1.5), state_cosine=rise(1.5), attention_max=rise(4.5))
    assert set(orders.values()) == {"before"}
    assert set(reasons.values()) == {""}
    assert all("the drift comes first" in line for line in lines[1:5])


def test_a_falling_mean_cosine_is_no_drift() -> None:
    """0.9 to 0.1 has a half-way point before that of the sharpness, and is the opposite of drift."""
    orders, reasons, lines = order_of(
        state_mean_norm=rise(1.5), state_cosine=1 - rise(1.5), attention_max=rise(4.5)
    )
    assert orders[COSINE] == "undecided"
    assert reasons[COSINE] == "the measure of drift falls"
    assert orders[NORM] == "before"
    assert "the order is undecided, because the measure of drift falls" in lines[3]


def test_a_norm_that_grows_with_all_norms_is_no_drift() -> None:
    grown = 1 + 9 * rise(1.5)
    orders, reasons, _ = order_of(
        state_mean_norm=grown, state_norm=2 * grown, state_cosine=rise(1.5), attention_max=rise(4.5)
    )
    assert orders[NORM] == "undecided"
    assert reasons[NORM] == "the norm of the mean does not grow relative to the mean norm"
    assert orders[COSINE] == "before"


def test_the_ratio_must_have_the_same_order() -> None:
    """All norms grow first; the mean grows relative to them only after attention is sharp."""
    size = 0.05 + rise(0.5)
    orders, reasons, _ = order_of(
        state_mean_norm=size * (0.3 + 0.3 * rise(5.5)),
        state_norm=size,
        state_cosine=rise(1.5),
        attention_max=rise(3.5),
    )
    assert orders[NORM] == "undecided"
    assert reasons[NORM] == "the ratio of the norm of the mean to the mean norm has another order"


@pytest.mark.parametrize(
    ("sharp", "values"),
    [("attention_max", 1 - rise(4.5)), ("attention_entropy_share", rise(4.5))],
)
def test_attention_that_gets_less_sharp_follows_no_drift(sharp: str, values: np.ndarray) -> None:
    curves = {"state_mean_norm": rise(1.5), "state_cosine": rise(1.5), "attention_max": rise(4.5)} | {
        sharp: values
    }
    orders, reasons, _ = order_of(**curves)
    assert orders["state_cosine", sharp] == "undecided"
    assert reasons["state_cosine", sharp] == "attention gets less sharp"
