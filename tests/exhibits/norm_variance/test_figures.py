"""The figures and tables of norm-variance: what is drawn, read back from the axes, against the survey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from scipy.stats import linregress
from tests.synthetic_surveys import DIM, SPECIAL, compute_sums, make_survey, select_unit_sets

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

ONE, TWO = make_survey("bert"), make_survey("gpt2", layers=5, scale=20.0, final_norm=True, seed=1)
BOTH = [ONE.survey, TWO.survey]


def drawn(
    number: str, surveys: Sequence[SurveyData] = (ONE.survey,), choice: Choice | None = None
) -> tuple[Plate, Figure, list[Axes]]:
    plate = make(find(f"norm-variance/{number}"), surveys, choice)
    figure = compose(plate)
    return plate, figure, figure.axes


def dots(ax: Axes) -> np.ndarray:
    """Every point of a panel, sorted."""
    clouds = [np.asarray(cloud.get_offsets()) for cloud in ax.collections if isinstance(cloud, PathCollection)]
    return np.array(sorted(map(tuple, np.concatenate(clouds))))


def lines_of(ax: Axes) -> list[np.ndarray]:
    """The long lines of a panel: one per model."""
    return [line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2]


def seen(survey: SurveyData, layer: int) -> pd.DataFrame:
    return survey.tokens[(survey.tokens["layer"] == layer) & (survey.tokens["population"] == "all")]


def in_fit(survey: SurveyData, layer: int) -> pd.DataFrame:
    table = seen(survey, layer)
    return table[(table["n"] >= 10) & ~table["unit"].isin(SPECIAL)]


def test_fig2_shows_every_unit_and_the_line_of_those_in_the_fit() -> None:
    plate, _, axes = drawn("fig2", BOTH)
    *panels, bar = axes
    assert bar.get_ylabel() == r"$\log_{10} n_t$"
    for ax, survey, layer in zip(panels, BOTH, (1, 2), strict=True):
        table = seen(survey, layer)
        assert dots(ax) == pytest.approx(np.array(sorted(zip(table["m"], table["v"], strict=True))))
        used = in_fit(survey, layer)
        theirs = linregress(used["m"], used["v"])
        line = ax.lines[0].get_xydata()
        assert line[:, 0] == pytest.approx([used["m"].min(), used["m"].max()])
        assert line[:, 1] == pytest.approx(theirs.intercept + theirs.slope * line[:, 0])
        assert f"{theirs.slope:.3g}".replace("-", "−") in ax.get_title()
        assert f"$R^2$ {theirs.rvalue**2:.3f}" in ax.get_title()
        assert f"{survey.model}, layer {layer}" in ax.get_title()
    assert len(plate.data) == 120
    assert "special units are excluded (fewer than 100,000 documents)" in plate.caption
    assert "bert and gpt2 on notes.txt (500 documents)" in plate.caption


@pytest.mark.parametrize(("number", "panel"), [("fig2", 0), ("fig11", 4 + 3)])
def test_units_are_coloured_by_frequency_on_one_scale(number: str, panel: int) -> None:
    _, _, axes = drawn(number, BOTH)
    table = seen(ONE.survey, 1).set_index("m")
    every = np.concatenate([seen(survey, 1)["n"] for survey in BOTH])
    clouds = [cloud for cloud in axes[panel].collections if isinstance(cloud, PathCollection)]
    coloured = [cloud for cloud in clouds if cloud.get_array() is not None]
    assert sum(len(cloud.get_offsets()) for cloud in coloured) == len(table) - len(SPECIAL)
    for cloud in coloured:
        n = table.loc[np.asarray(cloud.get_offsets())[:, 0], "n"]
        assert np.asarray(cloud.get_array()) == pytest.approx(np.log10(n).to_numpy())
        assert (cloud.norm.vmin, cloud.norm.vmax) == pytest.approx((0.0, np.log10(every.max())))
        assert np.all(np.diff(cloud.get_array()) >= 0)  # the frequent ones are on top
    bars = [ax for ax in axes if ax.get_ylabel() == r"$\log_{10} n_t$"]
    assert len(bars) == (1 if number == "fig2" else 2)
    assert all(bar.get_ylim() == pytest.approx((0.0, np.log10(every.max()))) for bar in bars)


def test_fig2_follows_the_choice() -> None:
    choice = Choice("without-first", "unbiased", "all", "kept", (0,))
    plate, _, (ax, _) = drawn("fig2", choice=choice)
    table = ONE.survey.tokens.query("layer == 0 and population == 'without-first' and n > 1")
    assert ax.lines[0].get_xdata() == pytest.approx([table["m_unbiased"].min(), table["m_unbiased"].max()])
    assert "all positions except the first of each window" in plate.caption
    assert "M and V are unbiased" in plate.caption
    assert "Fits use units with n > 1; special units are included." in plate.caption


def test_axes_show_every_unit_in_the_fit_and_count_those_outside() -> None:
    tokens = ONE.survey.tokens.copy()
    far = tokens.index[(tokens["layer"] == 1) & (tokens["population"] == "all") & (tokens["n"] < 10)][0]
    tokens.loc[far, "m"] = 1e9
    survey = SurveyData(ONE.survey.facts, ONE.survey.tables | {"tokens": tokens})
    _, _, (ax, _) = drawn("fig2", [survey])
    table = seen(survey, 1)
    inside = table["m"].between(*ax.get_xlim()) & table["v"].between(*ax.get_ylim())
    assert not inside[far]
    assert [text.get_text() for text in ax.texts] == [f"{(~inside).sum()} outside"]
    used = tokens.query("layer == 1 and population == 'all' and n >= 10")
    assert ax.get_xlim()[0] < used["m"].min() < used["m"].max() < ax.get_xlim()[1] < 1e9


def test_fig4_shows_cv_slope_and_r2_of_every_layer() -> None:
    _, _, axes = drawn("fig4", BOTH)
    for number, survey in enumerate(BOTH):
        expected = []
        for layer in survey.layer_names:
            used = in_fit(survey, layer)
            line = linregress(used["m"], used["v"])
            expected.append((used["q"].std(ddof=0) / used["q"].mean(), line.slope, line.rvalue**2))
        for ax, values in zip(axes, np.transpose(expected), strict=True):
            found = lines_of(ax)[number]
            assert found[:, 0].tolist() == list(survey.layer_names)
            assert found[:, 1] == pytest.approx(values)


def test_fig4_has_intervals_of_all_three_numbers() -> None:
    plate, _, axes = drawn("fig4")
    for ax, column in zip(axes, ("q_cv", "slope", "r2"), strict=True):
        low, middle, high = (plate.data[name] for name in (f"{column}_low", column, f"{column}_high"))
        assert ((low < middle) & (middle < high)).all()
        (strip,) = ax.collections
        assert strip.get_paths()[0].vertices[:, 1].max() == pytest.approx(high.max())
    assert "Strips: 95% intervals by bootstrap over units" in plate.caption


def test_the_final_norm_has_an_open_marker() -> None:
    plate, _, axes = drawn("fig6", BOTH)
    opened = [line for line in axes[0].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [line.get_xdata().tolist() for line in opened] == [[4]]
    assert "Open marker: the state after the final norm." in plate.caption
    assert "Open marker" not in drawn("fig6")[0].caption


def parts(made: object, layer: int, of: str = "text_") -> dict[str, float]:
    return compute_sums(select_unit_sets(made.vectors[layer, "all"])[of])  # type: ignore[attr-defined]


def test_fig5_stacks_the_parts_of_q() -> None:
    plate, _, axes = drawn("fig5", BOTH)
    for ax, made in zip(axes, (ONE, TWO), strict=True):
        layers = len(made.survey.layer_names)
        heights = np.array([bar.get_height() for bar in ax.patches]).reshape(3, layers)
        for layer in range(layers):
            of = parts(made, layer)
            expected = [of[name] / of["q"] for name in ("m", "v_within", "v_between")]
            assert heights[:, layer] == pytest.approx(expected)
        assert heights.sum(axis=0) == pytest.approx(np.ones(layers))
        assert [bar.get_x() + bar.get_width() / 2 for bar in ax.patches[:layers]] == pytest.approx(range(layers))
        # Thin lines edged in white: M/Q at its upper edge, V_W/Q and V_B/Q side by side at the one they share. The
        # survey has errors of three times 0.06, 0.07 and 0.08.
        edges = (heights[0], heights[0] + heights[1], heights[0] + heights[1])
        assert len(ax.collections) == 6
        for number, drawn_line in enumerate(ax.collections):
            part = number // 2
            segments = np.array(drawn_line.get_segments())
            assert segments[:, :, 1].mean(axis=1) == pytest.approx(edges[part])
            assert np.ptp(segments[:, :, 1], axis=1) == pytest.approx(2 * 1.96 * 0.03 * (6 + part))
            assert segments[:, 0, 0] == pytest.approx(np.arange(layers) + (0, -0.2, 0.2)[part])
    assert "; special units are excluded (fewer than 100,000 documents)." in plate.caption
    assert "on the right for V_B(X)/Q(X): ±1.96 standard errors, by jackknife over groups of" in plate.caption


@pytest.mark.parametrize("number", ["fig5", "fig6", "fig18", "fig19", "fig20"])
@pytest.mark.parametrize(
    ("choice", "of", "words"),
    [
        (Choice(specials="kept"), "filtered_", "special units are included."),
        (Choice(specials="left-out"), "text_", "special units are excluded."),
        (
            Choice(filter="all"),
            "unfiltered_text_",
            "Computed over all units; special units are excluded (fewer than",
        ),
        (Choice(filter="all", specials="kept"), "", "Computed over all units; special units are included."),
    ],
)
def test_sums_follow_the_choice_of_special_units(number: str, choice: Choice, of: str, words: str) -> None:
    plate, _, _ = drawn(number, choice=choice)
    for row in plate.data.to_dict("records"):
        expected = parts(ONE, row["layer"], of)
        assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert words in plate.caption
    assert "jackknife over groups of documents" in plate.caption
    assert "bootstrap" not in plate.caption


def test_a_survey_of_an_older_version_has_no_errors_over_units() -> None:
    old = SurveyData(ONE.survey.facts | {"formulas": {"layers": {}}}, ONE.survey.tables)
    plate, _, _ = drawn("fig6", [old])
    assert plate.data["v_within_of_v"].notna().all()
    assert plate.data["v_within_of_v_se"].isna().all()
    assert "bert, which an older version surveyed, has none." in plate.caption


def test_sums_of_many_documents_keep_the_special_units_beside_those_of_few() -> None:
    many = make_survey("large", documents=200_000)
    plate, _, _ = drawn("fig6", [ONE.survey, many.survey])
    of_many = plate.data.query("survey == 'large'")["q"].tolist()
    assert of_many == pytest.approx([parts(many, layer, "filtered_")["q"] for layer in range(3)])
    assert (
        "special units of bert are excluded (fewer than 100,000 documents), those of large included"
        in plate.caption
    )


@pytest.mark.parametrize(
    ("number", "column", "error"), [("fig6", "v_within_of_v", 0.27), ("fig20", "v_within", 0.12)]
)
def test_confidence_bands_use_the_same_units(number: str, column: str, error: float) -> None:
    plate, _, axes = drawn(number)
    strip = axes[0].collections[0].get_paths()[0].vertices
    assert strip[:, 1].max() == pytest.approx(plate.data[column].max() + 1.96 * error)
    assert "by jackknife over groups of documents" in plate.caption
    assert (
        "standard errors of the biased estimates, by"
        in drawn(number, choice=Choice(variant="unbiased"))[0].caption
    )


def test_the_table_of_sums_has_both_versions_of_everything() -> None:
    plate, _, _ = drawn("sums", BOTH)
    assert len(plate.data) == (3 + 5) * 2 * 8
    assert plate.shown is not None
    assert len(plate.shown) == 2 * 2 * 8
    row = plate.data.query("survey == 'bert' and layer == 1 and population == 'all' and variant == 'biased'")
    row = row.query("filter == 'frequent' and specials == 'left-out'").iloc[0]
    printed = plate.shown.loc[row.name]
    assert printed["M/Q"] == f"{row['m_of_q']:.3g} ± 0.18"
    assert printed["units"] == str(len(select_unit_sets(ONE.vectors[1, "all"])["text_"]))
    assert plate.shown.query("variant == 'unbiased' and filter == 'all'")["M/Q"].eq("–").all()
    assert set(drawn("sums", BOTH, Choice(layers=(0, 2)))[0].data["layer"]) == {0, 2}


@pytest.mark.parametrize(
    ("number", "ratios"),
    [
        ("fig6", [("v_within", "v")]),
        ("fig18", [("m", "q"), ("v", "q"), ("v_within", "q"), ("v_between", "q")]),
        ("fig20", [None, None, ("v_between", "v")]),
    ],
)
def test_ratios_by_layer(number: str, ratios: list[tuple[str, str] | None]) -> None:
    _, _, axes = drawn(number, BOTH)
    for ax, ratio in zip(axes, ratios, strict=False):
        for place, made in enumerate((ONE, TWO) if ratio else ()):
            of = [parts(made, layer) for layer in made.survey.layer_names]
            assert lines_of(ax)[place][:, 1] == pytest.approx([each[ratio[0]] / each[ratio[1]] for each in of])


@pytest.mark.parametrize(("number", "columns"), [("fig19", ["q", "m", "v"]), ("fig20", ["v_within", "v_between"])])
def test_a_model_of_another_scale_has_the_right_axis(number: str, columns: list[str]) -> None:
    _, figure, axes = drawn(number, BOTH)
    left = [ax for ax in axes if ax.yaxis.get_ticks_position() == "left"]
    right = [ax for ax in axes if ax.yaxis.get_ticks_position() == "right"]
    assert len(right) == len(columns)
    for column, one, two in zip(columns, left, right, strict=False):
        for ax, made in ((one, ONE), (two, TWO)):
            (found,) = lines_of(ax)
            assert found[:, 1] == pytest.approx([parts(made, k)[column] for k in made.survey.layer_names])
    legend = figure.subfigs[0].legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["bert", "gpt2 (right axis)"]
    _, _, alone = drawn(number)
    assert len(alone) == 3


def test_fig19_of_all_units_has_the_errors_of_the_groups() -> None:
    plate, _, axes = drawn("fig19", choice=Choice(filter="all", specials="kept"))
    strip = axes[0].collections[0].get_paths()[0].vertices
    q = ONE.survey.layers.query("population == 'all'")["q"]
    assert strip[:, 1].max() == pytest.approx(q.max() + 1.96 * 0.01)
    assert "jackknife over groups of documents." in plate.caption
    assert "Computed over all units; special units are included." in plate.caption


def test_fig7_has_three_panels_per_model() -> None:
    _, _, axes = drawn("fig7", BOTH)
    table = ONE.survey.tokens.query("layer == 1 and population == 'all'")
    for ax, column in zip(axes[:3], "qmv", strict=True):
        assert dots(ax) == pytest.approx(np.array(sorted(zip(np.log10(table["n"]), table[column], strict=True))))
        used = table[(table["n"] >= 10) & ~table["unit"].isin(SPECIAL)]
        theirs = linregress(np.log10(used["n"]), used[column])
        ends = ax.lines[0].get_xydata()
        assert (ends[1, 1] - ends[0, 1]) / (ends[1, 0] - ends[0, 0]) == pytest.approx(theirs.slope)
    assert len(axes) == 6


def test_fig9_has_one_panel_per_corpus() -> None:
    _, _, axes = drawn("fig9", BOTH)
    (ax,) = axes
    assert [bar.get_height() for bar in ax.patches] == [0, 3, 5, 0, 2]
    assert [bar.get_x() + bar.get_width() / 2 for bar in ax.patches] == pytest.approx(range(5))
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] < 1  # a bar of one document is visible


def test_fig9_ends_where_the_data_ends() -> None:
    counts = [0] * 257
    counts[10:13] = 4, 9, 1
    facts = ONE.survey.facts | {"corpus": ONE.survey.facts["corpus"] | {"words_histogram": counts}}
    plate, _, (ax,) = drawn("fig9", [SurveyData(facts, ONE.survey.tables)])
    low, high = ax.get_xlim()
    assert 7 < low < 9.5
    assert 12.5 < high < 15
    assert "256 words or more" not in plate.caption
    counts[256] = 1
    plate, _, (ax,) = drawn("fig9", [SurveyData(facts, ONE.survey.tables)])
    assert ax.get_xlim()[1] > 256
    assert "The last bin has all documents of 256 words or more." in plate.caption


def test_fig10_counts_units() -> None:
    plate, _, axes = drawn("fig10", BOTH)
    bars = [bar for bar in axes[0].patches if bar.get_width() == pytest.approx(0.25)]
    assert sum(bar.get_height() for bar in bars) == 60
    assert axes[0].get_yscale() == "log"
    assert axes[0].get_ylim()[0] < 1
    assert "special units are included" in plate.caption


def test_fig11_has_one_row_per_layer_and_one_block_per_model() -> None:
    _, _, axes = drawn("fig11", BOTH)
    assert len(axes) == 4 * (3 + 5) + 2  # and a colour bar a model
    for layer in range(3):
        table = seen(ONE.survey, layer)
        for ax, column in zip(axes[4 * layer :], "qmv", strict=False):
            expected = sorted(zip(np.log10(table["n"]), np.log10(1 + table[column]), strict=True))
            assert dots(ax) == pytest.approx(np.array(expected))
        tradeoff = np.array(sorted(zip(table["m"], table["v"], strict=True)))
        assert dots(axes[4 * layer + 3]) == pytest.approx(tradeoff)
        assert axes[4 * layer].get_ylabel().startswith(f"layer {layer}")
    assert len(drawn("fig13", BOTH, Choice(layers=(2, 0)))[2]) == 4 * 4 + 2


def test_fig14_outlines_three_histograms_per_layer() -> None:
    plate, _, axes = drawn("fig14", BOTH)
    assert len(axes) == 3 + 5
    for quantity, patch in zip("qmv", axes[1].patches[::2], strict=True):
        bins = plate.data.query("survey == 'bert' and layer == 1")
        bins = bins[bins["quantity"] == quantity]
        values, edges, _ = patch.get_data()
        assert values.tolist() == bins["count"].tolist()
        assert edges[:-1] == pytest.approx(bins["low"])
        assert values.sum() == 60
    assert "Computed over all units; special units are included." in plate.caption
    assert len(drawn("fig16", BOTH, Choice(layers=(1,)))[2]) == 2


def test_fig14_states_the_height_of_a_cut_bar() -> None:
    tokens = ONE.survey.tokens
    still = tokens.assign(v=tokens["v"].where(tokens["n"] >= 10, 0.0))
    survey = SurveyData(ONE.survey.facts, ONE.survey.tables | {"tokens": still})
    plate, _, axes = drawn("fig14", [survey])
    tallest = plate.data.query("layer == 2 and quantity == 'v'")["count"].max()
    assert axes[2].get_ylim()[1] < tallest
    assert f" {tallest}" in [text.get_text() for text in axes[2].texts]


def test_fig17_shows_slopes_of_logarithms() -> None:
    _, _, axes = drawn("fig17", BOTH)
    for ax, column in zip(axes, "qmv", strict=True):
        expected = []
        for layer in range(3):
            used = in_fit(ONE.survey, layer)
            expected.append(linregress(np.log10(used["n"]), np.log10(1 + used[column])).slope)
        assert lines_of(ax)[0][:, 1] == pytest.approx(expected)


def test_fig22_separates_words_by_number_of_tokens() -> None:
    words = make_survey("bert", kind="word").survey
    plate, figure, axes = drawn("fig22", [words])
    assert len(axes) == 12
    table = words.tokens.query("layer == 0 and population == 'all'")
    assert dots(axes[0]) == pytest.approx(np.array(sorted(zip(np.log10(table["n"]), table["q"], strict=True))))
    clouds = [cloud for cloud in axes[0].collections if isinstance(cloud, PathCollection)]
    assert len({tuple(cloud.get_facecolor()[0][:3]) for cloud in clouds if len(cloud.get_offsets())}) == 5
    assert [len(cloud.get_offsets()) for cloud in clouds] == [
        (np.clip(words.units["tokens_per_unit"], 1, 5) == tokens).sum() for tokens in range(1, 6)
    ]
    assert min(cloud.get_alpha() for cloud in clouds[1:]) > 0.8  # rare words of several tokens are the artefact
    assert [axes[place].get_title().split("\n")[0] for place in range(4)] == [
        "$Q(X_w)$",
        "$M(X_w)$",
        "$V(X_w)$",
        "$V(X_w)$ on $M(X_w)$",
    ]
    assert [ax.get_xlabel() for ax in axes[8:]] == [r"$\log_{10} n_w$"] * 3 + ["$M(X_w)$"]
    assert (
        "The model reads the complete text with punctuation; in the paper it read cleaned words." in plate.caption
    )
    clean = replace(words, facts=words.facts | {"settings": {"clean_words": True}})
    assert "As in the paper, the model reads only cleaned words:" in drawn("fig22", [clean])[0].caption
    assert "The line spans the words in the fit." in plate.caption
    assert "Pale" not in plate.caption
    assert [text.get_text() for text in figure.subfigs[0].legends[0].get_texts()][-1] == "5 or more"


def test_table1_and_table3_have_the_papers_columns() -> None:
    plate, _, _ = drawn("table1", BOTH)
    assert plate.data.to_numpy().tolist() == [["bert", 3, DIM, 22_713_216], ["gpt2", 5, DIM, 22_713_216]]
    assert plate.shown is not None
    assert plate.shown.to_numpy().tolist()[0] == ["bert", "3", str(DIM), "22.7M"]
    plate, _, _ = drawn("table3", BOTH)
    n = ONE.survey.tokens.query("layer == 0 and population == 'all'")["n"]
    assert plate.data.loc[0, ["types", "vectors"]].tolist() == [60, n.sum()]
    assert plate.shown is not None
    assert list(plate.shown.columns) == ["Model", "Units", "|T|", "|X|", "frequent", "special"]


@pytest.mark.parametrize("name", ["sums", "fits"])
def test_a_population_with_the_numbers_of_another_is_not_listed_again(name: str) -> None:
    tables = dict(ONE.survey.tables)
    for table in ("layers", "tokens"):
        every = tables[table][tables[table]["population"] == "all"]
        tables[table] = pd.concat([tables[table], every.assign(population="without-massive")], ignore_index=True)
    populations = [*ONE.survey.facts["populations"], "without-massive"]
    plate, _, _ = drawn(name, [SurveyData(ONE.survey.facts | {"populations": populations}, tables)])
    assert plate.shown is not None
    assert set(plate.shown["population"]) == {"all", "without-first"}
    assert set(plate.data["population"]) == {"all", "without-first", "without-massive"}
    assert "Not listed again: without-massive of bert, which equals all." in plate.caption
    assert "Not listed again" not in drawn(name)[0].caption


def test_the_table_of_fits_has_both_versions_of_everything() -> None:
    plate, _, _ = drawn("fits")
    assert len(plate.data) == 3 * 2 * 7 * 8
    assert set(plate.data["specials"]) == {"kept", "left-out"}
    assert plate.shown is not None
    assert len(plate.shown) == 2 * 8
    assert set(plate.shown["layer"]) == {"1"}


def test_massive_positions_are_reported_in_the_caption() -> None:
    layers = ONE.survey.layers.assign(massive=[0, 0, 7, 0, 3, 0])
    survey = SurveyData(ONE.survey.facts, ONE.survey.tables | {"layers": layers})
    assert "per layer up to 7 in bert (see --population)" in drawn("fig4", [survey])[0].caption
    assert "Massive" not in drawn("fig4", [survey], Choice("without-first"))[0].caption


def test_user_supplied_names_are_drawn_verbatim() -> None:
    odd = make_survey("$odd_{name}$\n<b>" + "x" * 90).survey
    _, figure, (ax, _) = drawn("fig2", [odd])
    figure.canvas.draw()
    assert ax.get_title().startswith(r"\$odd_{name}\$…xxx")
