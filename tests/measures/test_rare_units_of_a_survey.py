"""The estimate for rare units from the sums of a survey: the small version of benchmarks/rare_units.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.rare_units import find_rare_units, repeat
from tests.small_models import sentences

import theodolite
from theodolite.statistics import rare_units
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.survey import Survey

MIN_COUNT = 60


@pytest.fixture(scope="module")
def survey(small_model: Callable[[str], Path]) -> Survey:
    """Give a survey of a decoder in which every unit has a vector."""
    return theodolite.survey(small_model("gpt2"), sentences(300, seed=19), layers="0,2", sample_size=64)


def test_the_spread_is_that_of_the_tokens_table(survey: Survey) -> None:
    none = np.zeros(0, dtype=np.int64)
    for population in ("all", "without-first"):
        units = find_rare_units(survey.state.folds[2], POPULATIONS[population], MIN_COUNT, none)
        table = survey.tokens.query(f"layer == 2 and population == '{population}'")
        whole = survey.tokens.query("layer == 2 and population == 'all'").set_index("unit")["n"]
        rare = table[table["unit"].map(whole) < MIN_COUNT]
        assert len(rare) > 50
        np.testing.assert_allclose(units.within.sum(), (rare["n"] * rare["v"]).sum(), rtol=1e-9)
        np.testing.assert_allclose(units.known.lengths.sum(), (rare["n"] * rare["q"]).sum(), rtol=1e-9)


def test_the_error_is_right_on_states_of_a_model(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rare_units, "MIN_SAMPLED", 2)
    found = repeat(survey, MIN_COUNT, sampled=25, seeds=60)
    assert set(found["layer"]) == {0, 2}
    assert set(found["population"]) == {"all", "without-first"}  # nothing is massive
    assert (found["covered"] >= 0.8).all()  # strata of about two units: their spread is hardly known
    assert found["se_ratio"].between(0.6, 1.6).all()
    assert (found["bias"].abs() < 0.5 * found["error"]).all()
