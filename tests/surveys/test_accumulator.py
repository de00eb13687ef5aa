"""The accumulator measures what a survey of all vectors measures, however they are split."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

import theodolite
from theodolite.errors import InputError
from theodolite.measures import Accumulator

Array = np.ndarray[Any, Any]


def make_vectors(n: int = 1500, seed: int = 3) -> tuple[Array, list[str]]:
    rng = np.random.default_rng(seed)
    codes = rng.choice(12, n, p=np.arange(12, 0, -1) / 78)
    means = np.random.default_rng(5).normal(size=(12, 6)) * 2
    return 3000 * np.eye(6)[0] + means[codes] + rng.normal(size=(n, 6)), [f"unit {code}" for code in codes]


def accumulate(x: Array, units: list[str] | None, cuts: list[int]) -> Accumulator:
    whole = Accumulator()
    for start, stop in zip([0, *cuts], [*cuts, len(x)], strict=True):
        whole.update(x[start:stop], None if units is None else units[start:stop])
    return whole


def test_the_numbers_equal_those_of_a_survey_of_all_vectors() -> None:
    x, units = make_vectors()
    found = accumulate(x, units, [100, 700, 701])
    survey = theodolite.measure(x, groups=units)
    row = survey.layers.query("population == 'all'").iloc[0]
    for column in ("n", "types", "q", "m", "v", "v_within", "v_between", "tradeoff_slope", "tradeoff_r2"):
        assert found.measures[column] == pytest.approx(row[column], rel=1e-9), column
    for column in ("mean_cosine", "participation_ratio", "effective_rank", "twonn", "norm_p50"):
        assert found.measures[column] == pytest.approx(row[column], rel=1e-5), column
    tokens = survey.tokens.query("population == 'all'").set_index("unit").sort_index()
    mine = found.units.set_index("unit").sort_index()
    assert (mine["n"] == tokens["n"]).all()
    assert np.allclose(mine["v"], tokens["v"], rtol=1e-9)


@pytest.mark.parametrize("labelled", [True, False])
def test_merged_parts_equal_one_accumulator(labelled: bool) -> None:
    x, units = make_vectors()
    given = units if labelled else None
    whole, merged = accumulate(x, given, [400]), Accumulator()
    for start, stop in ((900, 1500), (0, 400), (400, 900)):  # in another order, and about other centres
        part = accumulate(x[start:stop], None if given is None else given[start:stop], [])
        before = part.measures["q"]
        merged.merge(pickle.loads(pickle.dumps(part)))
        assert part.measures["q"] == before
    assert merged.n == whole.n == 1500
    columns = ["q", "m", "v", "mean_cosine", "participation_ratio", *(["v_within", "q_cv"] if labelled else [])]
    for column in columns:
        assert merged.measures[column] == pytest.approx(whole.measures[column], rel=1e-6), column
    assert merged.measures["twonn_n"] == whole.measures["twonn_n"] == 1500  # no row is taken for another's copy
    assert merged["twonn"].value == pytest.approx(whole["twonn"].value, rel=1e-5)


def test_errors_are_over_documents() -> None:
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(200), 10)
    x = rng.normal(size=(2000, 4)) + rng.normal(size=(200, 4))[documents] + 1
    by_row, by_document = Accumulator(), Accumulator()
    by_row.update(x)
    by_document.update(torch.tensor(x), documents=documents)
    assert by_document["q"].se > 1.5 * by_row["q"].se


def test_a_number_comes_with_its_formula_and_reason() -> None:
    x, _ = make_vectors(60)
    found = accumulate(x, None, [])
    assert found["mean_cosine"].formula.id == "mean-cosine/all-pairs"
    assert found["mean_cosine"].n == 60
    assert found["mean_cosine"].se > 0
    assert np.isnan(float(found["v_within"]))
    assert found["v_within"].reason
    with pytest.raises(InputError, match=r"'cosine' is not a measure"):
        found["cosine"]


def test_bad_batches_are_rejected_and_change_nothing() -> None:
    x, units = make_vectors(50)
    found = accumulate(x, units, [])
    for arguments, message in (
        ((x[:, :5], units), "expected vectors of 6 coordinates, as before, got 5"),
        ((x,), "give labels with every batch or with none"),
        ((x, units[:3]), r"units: expected one label per vector, 50 in all, got the shape \(3,\)"),
        ((np.full((2, 6), np.inf), units[:2]), "2 of 2 rows are not finite"),
    ):
        with pytest.raises(InputError, match=message):
            found.update(*arguments)
    with pytest.raises(InputError, match="Only one of the two accumulators has units"):
        found.merge(accumulate(x, None, []))
    with pytest.raises(InputError, match="have 6 and 3 coordinates"):
        found.merge(accumulate(x[:, :3], units, []))
    assert found.n == found.measures["n"] == 50
    with pytest.raises(InputError, match="has seen no vectors"):
        _ = Accumulator().measures
