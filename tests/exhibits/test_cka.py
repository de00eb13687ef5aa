"""The heat map of a bridge shows the numbers of its table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from theodolite.exhibits.cka import draw_cka
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.studies.survey_data import SurveyData

FACTS = {
    "model": {"name": "one"},
    "model_b": {"name": "other"},
    "corpus": {"name": "texts"},
    "matched": "By word.",
}


def make_table(first: list[int], second: list[int]) -> pd.DataFrame:
    rows = [(a, b, 10, a / 20 + b / 100) for a in first for b in second]
    return pd.DataFrame(rows, columns=["layer_a", "layer_b", "n", "cka"])


def test_every_pair_is_a_square_in_its_place() -> None:
    table = make_table([0, 3, 12], [0, 7])
    table.loc[1, "cka"] = np.nan
    plate = draw_cka(FACTS, table)
    ax = compose(plate).axes[0]
    np.testing.assert_allclose(ax.images[0].get_array().filled(np.nan), [[0, np.nan], [0.15, 0.22], [0.6, 0.67]])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "3", "12"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "7"]
    assert [text.get_text() for text in ax.texts] == ["0.00", "0.15", "0.22", "0.60", "0.67"]
    assert ax.images[0].get_clim() == (0, 1)
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("layer of one", "layer of other")
    assert "over 10 positions of texts. By word." in plate.caption


def test_many_layers_have_no_numbers_and_fewer_labels() -> None:
    ax = compose(draw_cka(FACTS | {"model_b": None}, make_table(list(range(33)), list(range(33))))).axes[0]
    assert not ax.texts
    assert len(ax.get_xticklabels()) <= 14


def test_several_bridges_stand_side_by_side() -> None:
    bridges = [
        SurveyData(
            FACTS | {"laboratory": "bridge", "populations": ["all"]}, {"cka": make_table([0, 1], [0, 1, 2])}
        ),
        SurveyData(
            FACTS | {"laboratory": "bridge", "populations": ["all"], "model_b": None},
            {"cka": make_table([0, 1], [0, 1])},
        ),
    ]
    plate = make(find("bridge/cka"), bridges)
    first, second = (ax.images[0].get_array().shape for ax in compose(plate).axes[:2])
    assert (first, second) == ((2, 3), (2, 2))
    assert plate.data["bridge"].unique().tolist() == ["one · other", "one · one"]
