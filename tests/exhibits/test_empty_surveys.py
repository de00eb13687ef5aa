"""Exhibits of very small surveys: rejected if all panels are empty, a note if one of several is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from tests.synthetic_surveys import make_layer_names, make_layer_survey, make_survey

from theodolite.errors import InputError
from theodolite.exhibits.drawing.style import GREY
from theodolite.exhibits.empty_surveys import explain_too_few
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, explain_undefined

LARGE = make_survey("large").survey
BY_LAYER = "fig4 fig5 fig6 fig17 fig18 fig19 fig20".split()
FEW = "fewer than three units with 1 ≤ log₁₀ n ≤ 5"


def small(most: int = 3, units: int = 12) -> SurveyData:
    """A survey whose units occur 1 to `most` times: the filter leaves none, and sums over it are null."""
    survey = make_survey("small", units=units).survey
    layers, tokens = survey.layers.copy(), survey.tokens.copy()
    for column in layers.columns[layers.columns.str.startswith(("text_", "filtered_"))]:
        layers[column] = np.nan
    tokens["n"] = 1 + tokens["unit"].factorize()[0] % most
    for column in ("m_unbiased", "v_unbiased"):
        tokens[column] = tokens[column].where(tokens["n"] > 1)
    return SurveyData(survey.facts, survey.tables | {"layers": layers, "tokens": tokens})


def counted(survey: SurveyData, n: int) -> SurveyData:
    return replace(survey, tables=survey.tables | {"tokens": survey.tokens.assign(n=n)})


def drawn(number: str, surveys: Sequence[SurveyData], choice: Choice | None = None) -> tuple[Plate, list[Axes]]:
    plate = make(find(f"norm-variance/{number}"), surveys, choice)
    return plate, [ax for ax in compose(plate).axes if ax.get_label() != "<colorbar>"]


def notes(ax: Axes) -> list[str]:
    """The grey notes of a panel, on one line, with ordinary spaces."""
    return [" ".join(text.get_text().split()) for text in ax.texts if text.get_color() == GREY]


@pytest.mark.parametrize("number", BY_LAYER)
def test_an_empty_exhibit_is_rejected_with_the_reason_and_a_command(number: str) -> None:
    with pytest.raises(InputError) as error:
        drawn(number, [small()])
    assert str(error.value) == (
        "There is nothing to draw. small on notes.txt: fewer than three units with 1 <= log10 n <= 5 that are not "
        "special; survey a larger corpus, or include units that occur fewer than 10 times with --filter all."
    )
    assert str(error.value).isascii()  # every terminal can print it


@pytest.mark.parametrize("number", BY_LAYER)
def test_the_suggested_command_works(number: str) -> None:
    _, axes = drawn(number, [small()], Choice(filter="all"))
    assert all(not notes(ax) for ax in axes)


def test_a_command_that_would_not_help_is_not_suggested() -> None:
    """Two units and two special ones: all of them are too few for a line, but not for a sum."""
    with pytest.raises(InputError, match=r"not special; survey a larger corpus\.$"):
        drawn("fig4", [small(units=4)])
    with pytest.raises(InputError, match="--filter all"):
        drawn("fig19", [small(units=4)])
    with pytest.raises(InputError, match=r"notes\.txt: fewer than three units that are not special; survey a"):
        drawn("fig4", [small(units=4)], Choice(filter="all"))


def test_units_that_all_occur_once_have_no_slope_on_n() -> None:
    with pytest.raises(InputError, match=r"small on notes\.txt: x is the same for every unit; survey"):
        drawn("fig17", [small(most=1)], Choice(filter="all"))
    with pytest.raises(InputError, match="no units with n > 1"):
        drawn("fig2", [small(most=1)], Choice(variant="unbiased", filter="all"))


@pytest.mark.parametrize("number", ["fig4", "fig6", "fig17", "fig18", "fig19", "fig20"])
def test_the_caption_names_a_small_survey_beside_a_large_one(number: str) -> None:
    plate, axes = drawn(number, [small(), LARGE])
    assert f"Not drawn: small on notes.txt ({FEW} that are not special)." in plate.caption.replace("\xa0", " ")
    assert all(not notes(ax) for ax in axes)
    assert "Not drawn" not in drawn(number, [LARGE])[0].caption


def test_an_empty_panel_of_a_model_has_a_note() -> None:
    _, (empty, full) = drawn("fig5", [small(), LARGE])
    assert notes(empty) == [f"{FEW} that are not special"]
    assert not notes(full)
    for number in ("fig10", "fig14"):
        plate, axes = drawn(number, [small(), LARGE], Choice(filter="frequent"))
        caption = [notes(ax) for ax in axes]
        assert caption == len(axes) // 2 * [["no units with 1 ≤ log₁₀ n ≤ 5"]] + len(axes) // 2 * [[]]
        with pytest.raises(InputError, match=r"no units with 1 <= log10 n <= 5; survey .* --filter all"):
            drawn(number, [small()], Choice(filter="frequent"))
        assert plate.data["count"].sum() > 0


@pytest.mark.parametrize("number", ["fig2", "fig7", "fig11"])
def test_points_without_a_line_have_a_note_on_the_missing_units(number: str) -> None:
    _, axes = drawn(number, [small()])
    assert axes
    for ax in axes:
        assert notes(ax) == [FEW]
        assert sum(len(cloud.get_offsets()) for cloud in ax.collections) == 12
        assert not ax.lines
        for text in ax.texts:
            assert text.get_zorder() < min(cloud.get_zorder() for cloud in ax.collections)  # hides no point


def test_a_panel_without_a_slope_states_the_reason() -> None:
    survey = small(most=1)
    flat = replace(survey, tables=survey.tables | {"tokens": survey.tokens.assign(v=0.0)})
    _, (cv, slope, r2) = drawn("fig4", [flat], Choice(filter="all"))
    assert not notes(cv)
    assert notes(slope) == notes(r2) == ["undefined at every layer: V is 0 for every unit"]


def test_a_filter_is_as_strict_as_its_definition() -> None:
    """Ten units are enough at n = 10 and none is at n = 9, and special ones count only where they are kept."""
    for most, few in ((9, True), (10, False)):
        survey = counted(small(), most)
        n = survey.tokens.query("layer == 0 and population == 'all'").set_index("unit")["n"]
        assert (sum(10 <= count <= 100_000 for count in n.drop(["[CLS]", "[SEP]"])) < 3) == few
        assert bool(explain_too_few(survey, Choice())) == few
    four = counted(small(units=4), 10)
    assert explain_too_few(four, Choice())
    assert not explain_too_few(four, Choice(specials="kept"))


def test_a_reason_from_the_table_is_reported() -> None:
    why = json.dumps({"mean_cosine": "fewer than two vectors have a direction"})
    known = make_layer_survey("one", make_layer_names(2), mean_cosine=3 * [np.nan])
    survey = replace(known, tables={"layers": known.layers.assign(undefined=why)})
    assert explain_undefined(survey, "all", "mean_cosine").endswith("(fewer than two vectors have a direction)")
    assert explain_undefined(survey, "all", "twonn") == "twonn is undefined at every layer"
    with pytest.raises(InputError, match=r"one on notes\.txt: mean_cosine is undefined \(fewer than two vectors"):
        make(find("anisotropy-inherent/fig1"), [survey])


@pytest.mark.parametrize("name", ["anisotropy-inherent/contextuality", "norm-variance/consistency"])
def test_a_survey_with_contextuality_does_not_suggest_the_option(name: str) -> None:
    survey = make_survey("asked").survey
    why = json.dumps({"self_similarity": "fewer than two units that are not special occur 5 times"})
    tables = survey.tables | {"layers": survey.layers.assign(self_similarity=np.nan, undefined=why)}
    asked = SurveyData(survey.facts | {"settings": {"contextuality": True}}, tables)
    with pytest.raises(InputError) as error:
        make(find(name), [asked])
    assert "asked on notes.txt was, but self_similarity is undefined (fewer than two units" in str(error.value)
    assert "--contextuality --out" not in str(error.value)


@pytest.mark.parametrize("panels", [1, 2])
def test_the_legend_of_populations_fits_above_the_panels(panels: int) -> None:
    surveys = [make_layer_survey(f"model-{number}", populations=tuple(POPULATIONS)) for number in range(panels)]
    figure = compose(make(find("dynamics/fig1-populations"), surveys))
    figure.canvas.draw()
    (legend,) = [one for part in figure.subfigs for one in part.legends]
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_a_survey_where_folders_of_a_laboratory_are_needed() -> None:
    """A need that reads the facts of a laboratory is not evaluated for other folders."""
    with pytest.raises(InputError, match=r"bert-spaces/fig14 needs .*theodolite weights"):
        make(find("bert-spaces/fig14"), [LARGE], None)
