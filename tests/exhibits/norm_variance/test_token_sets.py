"""fig1, fig8 and table2: what is drawn against the sets, every format, and the error without them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from tests.exhibits.formats import take_turns
from tests.synthetic_surveys import add_token_sets, make_survey

from theodolite.errors import InputError
from theodolite.exhibits.drawing.scatter import place_names
from theodolite.exhibits.norm_variance.token_sets import draw_sets
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.token_set_files import TokenSetTables, get_token_sets
from theodolite.studies.survey_data import SurveyData

MADE = make_survey("bert")
SURVEY = add_token_sets(MADE)
OTHER = add_token_sets(make_survey("gpt2", layers=5, scale=20.0, seed=1), layer=2, far=True)
BEGINS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def drawn(number: str, *surveys: object, choice: Choice | None = None) -> tuple[str, Figure]:
    plate = make(find(f"norm-variance/{number}"), list(surveys), choice)  # type: ignore[arg-type]
    return plate.caption, compose(plate)


def names_on(ax: Axes) -> set[str]:
    return {text.get_text() for text in ax.texts if text.get_text()}


def test_fig1_shows_every_vector_the_means_and_the_origin() -> None:
    caption, figure = drawn("fig1", SURVEY)
    ax, bar = figure.axes
    found = get_token_sets(SURVEY)
    every, means = (np.asarray(cloud.get_offsets()) for cloud in ax.collections)
    assert every == pytest.approx(found.places[["x", "y"]].to_numpy())
    assert np.asarray(ax.collections[0].get_array()) == pytest.approx(found.places["log10_n"].to_numpy())
    assert means == pytest.approx(found.chosen[["x", "y"]].to_numpy())
    assert ax.lines[0].get_xydata().tolist() == [[0.0, 0.0]]
    assert ax.lines[0].get_marker() == "x"
    assert names_on(ax) == {"w2", "w5", "w9", "w30"}
    assert bar.get_ylabel() == r"$\log_{10} n_t$"
    assert "layer 0" in ax.get_title()
    assert "sampled from ten equal intervals" in caption
    assert "At most 200 vectors" in caption


def test_fig1_has_one_scale_on_both_axes_and_names_beside_the_origin() -> None:
    _, figure = drawn("fig1", SURVEY, OTHER)
    figure.draw_without_rendering()
    for ax, survey in zip(figure.axes[:2], (SURVEY, OTHER), strict=True):
        box = ax.get_window_extent()
        assert box.width / np.ptp(ax.get_xlim()) == pytest.approx(box.height / np.ptp(ax.get_ylim()), rel=1e-6)
        assert ax.get_aspect() == 1
        means = get_token_sets(survey).chosen
        assert means["x"].between(*ax.get_xlim()).all()
        assert means["y"].between(*ax.get_ylim()).all()
    crowded = get_token_sets(SURVEY)
    at = crowded.chosen.assign(x=[-0.4, 0.4, 0.0, 0.0], y=[0.0, 0.0, 0.3, -0.3])
    near = Figure(figsize=(7, 5)).subplots()
    draw_sets(near, TokenSetTables(at, crowded.places, crowded.facts), Normalize(0, 2))
    near.figure.draw_without_rendering()
    cross = near.transData.transform((0.0, 0.0))
    assert not any(text.get_window_extent().padded(2).contains(*cross) for text in near.texts)


def test_one_outlier_does_not_shrink_the_picture() -> None:
    _, figure = drawn("fig1", SURVEY, OTHER)
    ax = figure.axes[1]
    found = get_token_sets(OTHER)
    assert names_on(ax) == {"1 outside", "w2", "w5", "w9", "w30"}
    assert ax.get_xlim()[1] < found.places["x"].abs().max() / 2


def test_fig8_is_fig2_with_the_tokens_named() -> None:
    _, figure = drawn("fig8", SURVEY)
    ax, bar = figure.axes
    assert bar.get_ylabel() == r"$\log_{10} n_t$"
    _, plain = drawn("fig2", SURVEY, choice=Choice(layers=(0,)))
    assert ax.lines[0].get_xydata() == pytest.approx(plain.axes[0].lines[0].get_xydata())
    assert np.asarray(ax.collections[-1].get_offsets()) == pytest.approx(
        get_token_sets(SURVEY).chosen.sort_values("n", ascending=False)[["m", "v"]].to_numpy()
    )
    assert {"w2", "w5", "w9", "w30"} <= names_on(ax)


def test_table2_lists_the_tokens_by_frequency(tmp_path: Path) -> None:
    found = find("norm-variance/table2")
    plate = make(found, [SURVEY])
    assert plate.data["unit"].tolist() == ["w30", "w9", "w5", "w2"]
    for row in plate.data.to_dict("records"):
        x = MADE.vectors[0, "all"][row["unit"]]
        m = float((x.mean(0) ** 2).sum())
        assert [row["n"], row["q"], row["m"], row["v"]] == pytest.approx(
            [len(x), float((x**2).sum(1).mean()), m, float(x.var(axis=0).sum())]
        )
    for ending in ("csv", "md", "json"):
        save(found, plate, tmp_path / f"t.{ending}")
    assert "| Token | n | Q | M | V |" in (tmp_path / "t.md").read_text("utf-8")
    assert len(json.loads((tmp_path / "t.json").read_text("utf-8"))["rows"]) == 4
    assert list(make(found, [SURVEY, OTHER]).shown.columns) == ["Model", "Token", "n", "Q", "M", "V"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("number", "ending"), take_turns(["fig1", "fig8", "table2"], BEGINS))
def test_every_format_of_one_survey_and_two(number: str, ending: str, tmp_path: Path) -> None:
    found = find(f"norm-variance/{number}")
    one, two = make(found, [SURVEY]), make(found, [SURVEY, OTHER])
    save(found, two if ending == "png" else one, tmp_path / f"made.{ending}")
    assert (tmp_path / f"made.{ending}").read_bytes().startswith(BEGINS[ending])


@pytest.mark.parametrize("number", ["fig1", "fig8", "table2"])
def test_a_survey_without_sets_is_rejected_with_the_command_that_makes_them(number: str) -> None:
    with pytest.raises(
        InputError, match=r"the survey of bert has no token sets; make them with `theodolite sets DIR`"
    ):
        make(find(f"norm-variance/{number}"), [SURVEY, MADE.survey])


def test_fig8_without_first_positions_unbiased() -> None:
    caption, figure = drawn("fig8", SURVEY, choice=Choice("without-first", "unbiased"))
    assert "M and V are unbiased" in caption
    assert "w2" in names_on(figure.axes[0])


def of_population(survey: SurveyData, population: str) -> SurveyData:
    found = get_token_sets(survey)
    return TokenSetTables(found.chosen, found.places, found.facts | {"population": population}).attach_to(survey)


def test_captions_state_the_positions_and_fig8_draws_those_of_the_sets() -> None:
    later = of_population(SURVEY, "without-first")
    caption, _ = drawn("fig1", SURVEY)
    assert "Vectors: all positions." in caption
    caption, _ = drawn("fig1", later, OTHER)
    assert "Vectors: all positions except the first of each window in bert; all positions in gpt2." in caption
    plate = make(find("norm-variance/fig8"), [later, OTHER])
    assert plate.caption.count("Vectors: all positions except the first of each window in bert") == 1
    assert "Population:" not in plate.caption
    populations = dict(zip(plate.data["survey"], plate.data["population"], strict=True))
    assert populations == {"bert": "without-first", "gpt2": "all"}
    rows = plate.data[plate.data["survey"] == "bert"].set_index("unit")
    for unit in ("w2", "w30"):
        x = MADE.vectors[0, "without-first"][unit]
        assert rows["n"][unit] == len(x)
        assert rows["v"][unit] == pytest.approx(float(x.var(axis=0).sum()))
    asked = make(find("norm-variance/fig8"), [SURVEY], Choice("without-first"))
    assert "Population: all positions except the first of each window." in asked.caption


def test_names_do_not_overlap_and_stay_in_the_axes() -> None:
    rng = np.random.default_rng(0)
    anchors = np.vstack([rng.uniform(0, [400, 260], (30, 2)), rng.normal([200, 130], 8, (12, 2))])
    sizes = np.stack([rng.uniform(12, 45, 42), np.full(42, 8.0)], axis=1)
    offsets = place_names(anchors, sizes, (400.0, 260.0))
    low, high = anchors + offsets - sizes / 2, anchors + offsets + sizes / 2
    assert (low >= 0).all()
    assert (high <= [400, 260]).all()
    for one in range(42):
        for other in range(one):
            assert not ((low[one] < high[other]) & (high[one] > low[other])).all()
    assert np.array_equal(offsets, place_names(anchors, sizes, (400.0, 260.0)))
