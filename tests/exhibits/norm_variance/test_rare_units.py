"""Exhibits of surveys in which rare units have no vector, so that their M and V are null."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from tests.synthetic_surveys import make_survey

from theodolite.exhibits.drawing.captions import RANGE
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

WHOLE = make_survey("bert").survey
NO_FILTER = Choice(filter="all")
SENTENCE = "V_W and V_B: 12% of positions estimated from a sample of rare tokens."


def with_rare_units(min_count: int = 10) -> SurveyData:
    """The survey without M and V of units with 2 to `min_count` - 1 occurrences."""
    tokens = WHOLE.tokens.copy()
    rare = tokens["n"].between(2, min_count - 1)
    assert 0 < rare.sum() < len(rare)
    for column in ("m", "v", "m_unbiased", "v_unbiased"):
        tokens[column] = tokens[column].where(~rare)
    layers = WHOLE.layers.assign(v_within_estimated_share=0.12)
    facts = WHOLE.facts | {"settings": (WHOLE.facts.get("settings") or {}) | {"min_count": min_count}}
    return replace(WHOLE, facts=facts, tables=WHOLE.tables | {"tokens": tokens, "layers": layers})


RARE = with_rare_units()


def test_units_without_m_and_v_are_not_drawn() -> None:
    figure = compose(make(find("norm-variance/fig2"), [RARE], None))
    clouds = [cloud for cloud in figure.axes[0].collections if isinstance(cloud, PathCollection)]
    points = np.concatenate([np.asarray(np.ma.filled(cloud.get_offsets(), np.nan)) for cloud in clouds])
    tokens = RARE.tokens[(RARE.tokens["layer"] == 1) & (RARE.tokens["population"] == "all")]
    assert np.isfinite(points).all(axis=1).sum() == tokens["m"].notna().sum() < len(tokens)


BY_UNIT = ["fig10", "fig11", "fig14"]


@pytest.mark.parametrize(
    ("number", "choice"),
    [(number, None) for number in (*BY_UNIT, "fits", "table3")] + [(number, NO_FILTER) for number in BY_UNIT],
)
def test_exhibits_by_unit_are_drawn(number: str, choice: Choice | None) -> None:
    plate = make(find(f"norm-variance/{number}"), [RARE], choice)
    assert compose(plate).axes


@pytest.mark.parametrize("number", ["fig4", "fig5"])
def test_filtered_fits_do_not_change(number: str) -> None:
    found, whole = (make(find(f"norm-variance/{number}"), [survey], None) for survey in (RARE, WHOLE))
    assert found.data.equals(whole.data)
    assert found.caption == whole.caption


def test_the_caption_states_what_is_estimated() -> None:
    figures = ["fig6", "fig17"]
    captions = [make(find(f"norm-variance/{number}"), [RARE], NO_FILTER).caption for number in figures]
    assert any(SENTENCE in caption for caption in captions)
    filtered = [make(find(f"norm-variance/{number}"), [RARE], None).caption for number in figures]
    assert not any("estimated from a sample" in caption for caption in filtered)


def test_the_caption_states_that_rare_units_are_a_sample() -> None:
    drawn = "Of units with 1 < n < 10, only a sample is drawn: the others have no M and V."
    used = "all units that have M and V (of those with 1 < n < 10, a sample, so numbers over all units differ);"
    assert drawn in make(find("norm-variance/fig2"), [RARE], None).caption
    assert used in make(find("norm-variance/fig2"), [RARE], NO_FILTER).caption
    assert used in make(find("norm-variance/fig4"), [RARE], NO_FILTER).caption
    assert "all units;" in make(find("norm-variance/fig6"), [RARE], NO_FILTER).caption  # with the estimate
    assert "sample" not in make(find("norm-variance/fig2"), [WHOLE], NO_FILTER).caption


@pytest.mark.parametrize("number", ["fig2", "fig4", "fig5", "fig6"])
def test_the_caption_states_a_filter_above_that_of_the_paper(number: str) -> None:
    caption = make(find(f"norm-variance/{number}"), [with_rare_units(40)], None).caption
    assert f"{RANGE} (units with n < 40 only where all units of about that n have a vector);" in caption
    both = make(find(f"norm-variance/{number}"), [with_rare_units(40), WHOLE], None).caption
    assert f"(units with n < 40 ({WHOLE.model}) only where " in both


def test_frequencies_are_those_of_all_units() -> None:
    found, whole = (make(find("norm-variance/fig10"), [survey], None) for survey in (RARE, WHOLE))
    assert found.data["count"].tolist() == whole.data["count"].tolist()
    assert found.caption == whole.caption


def test_the_table_of_fits_states_which_lack_units() -> None:
    sentence = "Of units with 1 < n < 10, only a sample has M and V: fits over all units would differ."
    assert sentence in make(find("norm-variance/fits"), [RARE], None).caption
    assert "sample" not in make(find("norm-variance/fits"), [WHOLE], None).caption
