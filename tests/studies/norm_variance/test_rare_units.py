"""Units used in fits where rare units have no vector, but for a sample: the same as those of layers.parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.small_models import sentences

from theodolite.engines.progress import Listener
from theodolite.statistics.rare_units import choose_units
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import tradeoff
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.rare_units import describe_rare_units
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.api import survey

KEPT = Choice(specials="kept")


@pytest.fixture(scope="module", params=[10, 40])
def sampled(request: pytest.FixtureRequest, small_model: Any) -> SurveyData:
    """Give a survey in which rare units have no vector, except for a few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("theodolite.statistics.rare_units.MIN_SAMPLED", 1)
        patch.setitem(choose_units.__kwdefaults__, "sampled", 1)
        made = survey(
            small_model("gpt2"),
            sentences(300, seed=19),
            min_count=request.param,
            layers="1",
            sample_size=64,
            listener=Listener(),
        )
    return SurveyData(made.facts, {name: getattr(made, name) for name in ("layers", "tokens", "units")})


def test_fits_use_the_units_of_the_layer_table(sampled: SurveyData) -> None:
    for population in sampled.facts["populations"]:
        choice = Choice(population=population, specials="kept")
        row = sampled.layers[sampled.layers["population"] == population].iloc[0]
        assert select_units(sampled, 1, choice)["used"].sum() == row["units_used"]
        found = tradeoff(sampled, choice).iloc[0]
        np.testing.assert_allclose(
            found[["q_cv", "slope", "r2"]].astype(float),
            row[["q_cv", "tradeoff_slope", "tradeoff_r2"]].astype(float),
            rtol=1e-6,
        )


def test_all_units_with_m_and_v_would_be_more(sampled: SurveyData) -> None:
    # What has a vector includes a sample of rare units, which stands for others.
    table = select_units(sampled, 1, KEPT)
    every = table["n"].between(10, 100_000) & table["v"].notna()
    rare = sampled.facts["settings"]["min_count"] > 10
    assert (every.sum() > table["used"].sum()) == rare


def test_the_share_of_units_is_that_of_the_tables(sampled: SurveyData) -> None:
    layers, tokens = (table[table["population"] == "all"] for table in (sampled.layers, sampled.tokens))
    kept, types = sampled.facts["memory"]["units_with_vector"], len(tokens)
    positions = tokens.loc[tokens["m"].isna(), "n"].sum() / tokens["n"].sum()
    words = describe_rare_units(sampled.facts, layers)
    assert f"{types - kept:,} of {types:,} units" in words
    assert f"estimated for {100 * positions:.2g}% of the positions" in words
    assert ("R2 use units with n < 40 only where" in words) == (sampled.facts["settings"]["min_count"] > 10)
