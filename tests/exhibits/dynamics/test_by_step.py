"""Exhibits of a series of checkpoints, read back from the axes, against the series."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from tests.exhibits.formats import take_turns
from tests.synthetic_series import make_series
from tests.synthetic_surveys import make_layer_survey

from theodolite.errors import InputError
from theodolite.exhibits.compare_series import compare_series
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

MADE = make_series(), make_series("other", (100, 200, 300), blocks=3, seed=1)
ONE, TWO = (series.as_survey_data() for series in MADE)


def drawn(name: str, surveys: list[SurveyData], choice: Choice | None = None) -> tuple[pd.DataFrame, str, Figure]:
    plate = make(find(f"dynamics/{name}"), surveys, choice)
    return plate.data, plate.caption, compose(plate)


def lines(ax) -> list[np.ndarray]:
    return [np.asarray(line.get_xydata()) for line in ax.lines if len(line.get_xdata()) > 2]


@pytest.mark.parametrize("population", ["all", "without-first"])
def test_fig2_is_the_mean_over_layers(population: str) -> None:
    _, caption, figure = drawn("fig2", [ONE, TWO], Choice(population))
    found = lines(figure.axes[0])
    expected = []
    for series in MADE:
        table = series.table[series.table["population"] == population]
        for names in (r"embeddings|block", "block"):
            rows = table[table["layer_name"].str.contains(names)]
            by_step = rows.groupby("step")["twonn"].mean()
            expected.append(np.column_stack([by_step.index, by_step]))
    for line, points in zip(found, expected, strict=True):
        assert line == pytest.approx(points)
    assert "Neither mean includes the state after a final norm" in caption
    assert ("except the first" in caption) == (population != "all")


def test_the_axis_of_steps() -> None:
    scales = [
        drawn("fig2", [survey], choice)[2].axes[0].get_xscale()
        for survey, choice in (
            (ONE, None),  # 0 to 1,000: a logarithm with a place for 0
            (TWO, None),
            (ONE, Choice(steps="linear")),
            (TWO, Choice(steps="log")),
        )
    ]
    assert scales == ["symlog", "linear", "linear", "log"]
    with pytest.raises(InputError, match="--steps 'lin' is not one of linear, log"):
        Choice(steps="lin")
    with pytest.raises(InputError, match="dynamics/fig3 does not use --steps"):
        drawn("fig3", [ONE], Choice(steps="log"))


@pytest.mark.parametrize(
    ("steps", "scale", "labels"),
    [
        ((0, 1, 512, 4000, 143_000), "symlog", ["0", "1", "10", "100", "1k", "10k", "143k"]),
        ((100, 200, 900, 980), "linear", ["100", "200", "400", "600", "800", "980"]),
        ((3, 40, 2_500), "log", ["3", "10", "100", "1k", "2.5k"]),
        ((100_001, 100_040), "linear", None),
    ],
)
def test_the_axis_of_steps_has_ticks_at_both_ends(steps, scale, labels) -> None:
    figure = drawn("fig2", [make_series("run", steps).as_survey_data()])[2]
    (ax,) = figure.axes
    assert ax.get_xscale() == scale
    assert (ax.get_xticks()[0], ax.get_xticks()[-1]) == (steps[0], steps[-1])
    written = [label.get_text() for label in ax.get_xticklabels()]
    assert written == labels if labels else len(set(written)) == len(written)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[:place])


def test_fig3_has_one_profile_per_step() -> None:
    data, caption, figure = drawn("fig3", [ONE, TWO])
    panels = [ax for ax in figure.axes if ax.get_xlabel() == "layer"]
    for ax, series in zip(panels, MADE, strict=True):
        found = lines(ax)
        assert len(found) == len(series.steps)
        for line, step in zip(found, series.steps, strict=True):
            rows = series.table[(series.table["step"] == step.step) & (series.table["population"] == "all")]
            assert line[:, 1] == pytest.approx(rows.sort_values("layer")["anisotropy_svd"].to_numpy())
        colours = [line.get_color() for line in ax.lines if len(line.get_xdata()) > 2]
        assert len(set(colours)) == len(colours)
    assert data["step"].nunique() == 7
    assert "Open marker: the state after the final norm" in caption
    assert find("dynamics/fig4").make is find("dynamics/fig3").make


def test_fig3_by_depth_and_with_one_step() -> None:
    single = make_series(steps=(7,)).as_survey_data()
    _, caption, figure = drawn("fig3", [single], Choice("without-first", depth="normalised"))
    assert lines(figure.axes[0])[0][:, 0] == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25])
    assert "mean over blocks" not in caption  # there is nothing to compare it with


def test_attention_is_the_mean_over_blocks() -> None:
    _, caption, figure = drawn("attention", [ONE, TWO])
    axes = np.array(figure.axes[:8]).reshape(2, 4)
    columns = [
        ["state_mean_norm"],
        ["query_norm", "key_norm"],
        ["state_cosine", "query_cosine", "key_cosine"],
        ["attention_max", "attention_entropy_share"],
    ]
    for row, series in zip(axes, MADE, strict=True):
        table = series.tables["attention"]
        for ax, measures in zip(row, columns, strict=True):
            for line, measure in zip(lines(ax), measures, strict=True):
                mean = table[table["population"] == "all"].groupby("step")[measure].mean()
                assert line == pytest.approx(np.column_stack([mean.index, mean]))
    assert "16 documents of notes.txt" in caption
    odd = make_series()
    odd.tables["attention"] = odd.tables["attention"].query("population == 'all'")
    with pytest.raises(InputError, match="attention is measured for the populations all and without-first"):
        drawn("attention", [odd.as_survey_data()], Choice("without-first"))


def test_a_planted_lead_is_reported() -> None:
    series = make_series(steps=(1, 2, 4, 8, 16, 32, 64))
    table = series.tables["attention"]
    place = np.log2(table["step"].to_numpy(float))
    for measure, middle in (("state_mean_norm", 1.5), ("attention_max", 4.5)):
        table[measure] = 1 / (1 + np.exp(3 * (middle - place)))
    table["state_norm"] = 1.0  # so that the mean grows relative to the norms
    _, caption, figure = drawn("attention", [series.as_survey_data()])
    assert "The drift comes first." in caption
    bands = [patch.get_extents().width for ax in figure.axes[:4] for patch in ax.patches]
    assert len(bands) == 2
    table["state_mean_norm"], table["attention_max"] = table["attention_max"], table["state_mean_norm"]
    assert "The sharpness comes first." in drawn("attention", [series.as_survey_data()])[1]


@pytest.mark.parametrize(("name", "ending"), take_turns(["fig2", "fig3", "attention"], ["png", "svg", "pdf"]))
def test_every_format(name: str, ending: str, tmp_path: Path) -> None:
    found = find(f"dynamics/{name}")
    out = tmp_path / f"a.{ending}"
    save(found, make(found, [ONE, TWO]), out)
    assert out.stat().st_size > 1000


@pytest.mark.parametrize("name", ["fig2", "fig3", "attention"])
def test_values_undefined_at_some_or_all_steps_are_drawn(name: str) -> None:
    series = make_series(steps=(5, 6, 7))
    series.table["anisotropy_svd"] = np.nan
    series.table.loc[series.table["step"] == 6, "twonn"] = np.nan
    measures = [column for column in series.tables["attention"] if column.startswith(("query", "key"))]
    series.tables["attention"][measures] = np.nan
    drawn(name, [series.as_survey_data()])


def test_missing_input_names_the_command() -> None:
    survey = make_layer_survey("bert")
    way = r"with `theodolite dynamics MODEL --checkpoints 'runs/checkpoint-\{step\}' --corpus CORPUS --out DIR`"
    for name in ("fig2", "fig3", "fig4", "attention"):
        with pytest.raises(InputError, match=way):
            make(find(f"dynamics/{name}"), [survey])
    empty = make_series(steps=(), attention=False)
    with pytest.raises(InputError, match="has no step yet"):
        make(find("dynamics/fig2"), [empty.as_survey_data()])
    without = make_series()
    without.table["twonn"] = np.nan
    with pytest.raises(InputError, match="fig2 needs series with the intrinsic dimension: the series of tiny"):
        make(find("dynamics/fig2"), [without.as_survey_data()])
    with pytest.raises(InputError, match="the series of tiny has none"):
        make(find("dynamics/attention"), [make_series(attention=False).as_survey_data()])
    with pytest.raises(InputError, match="dynamics/fig1 needs surveys: tiny is a folder of `theodolite dynamics`"):
        make(find("dynamics/fig1"), [ONE])
    plate = make(find("dynamics/fig2"), [ONE, survey])
    assert "Omitted: bert (not a series of checkpoints)." in plate.caption
    with pytest.raises(InputError, match="--population 'without-massive'"):
        make(find("dynamics/fig2"), [ONE], Choice("without-massive"))


def test_a_series_from_disk_draws_the_same(tmp_path: Path) -> None:
    from theodolite.studies.reading import read_survey_data

    back = read_survey_data(MADE[0].write(tmp_path / "series"))
    assert drawn("fig2", [back])[0].equals(drawn("fig2", [ONE])[0])
    assert json.loads((tmp_path / "series" / "series.json").read_text())["series"] is True


def test_layers_with_few_distinct_vectors_are_not_averaged() -> None:
    """Of bytes, 72 embeddings are seen: their TwoNN is not that of 4,096 vectors of a block."""
    series = make_series()
    table = series.table
    table["twonn_n"] = np.where(table["layer_name"] == "embeddings", 72, 4096)
    table.loc[table["layer_name"] == "embeddings", "twonn"] = 90.0
    data, caption, _ = drawn("fig2", [series.as_survey_data()])
    for _, rows in data.groupby("scope"):
        assert rows["layers"].eq(4).all()
        assert rows["mean"].lt(13).all()
    assert "Not averaged in tiny: embeddings (72 distinct vectors)." in caption
    table["twonn_n"] = 4096
    data, caption, _ = drawn("fig2", [series.as_survey_data()])
    assert set(data["layers"]) == {4, 5}
    assert "Not averaged" not in caption


def _trained(name: str, seed: int, steps: tuple[int, ...] = (0, 10, 20)) -> SurveyData:
    series = make_series(name, steps, attention=False, seed=seed)
    table = series.table
    series.tables["series"] = table.assign(effective_rank=table["anisotropy_svd"] * 10)
    series.tables["training"] = pd.DataFrame({"step": steps, "loss": np.arange(len(steps)) + seed, "x": 1.0})
    return series.as_survey_data()


def test_attention_draws_seeds_as_one_band() -> None:
    series = [make_series(f"small-seed{seed}", (0, 10, 20), seed=seed) for seed in (1, 2)]
    data, caption, figure = drawn("attention", [one.as_survey_data() for one in series] + [TWO])
    assert set(data["survey"]) == {"small", "other"}
    small = data[(data["survey"] == "small") & (data["measure"] == "query_norm")]
    each = [
        drawn("attention", [one.as_survey_data()])[0].query("measure == 'query_norm'")["mean"].to_numpy()
        for one in series
    ]
    assert small["mean"].to_numpy() == pytest.approx(np.mean(each, axis=0))
    assert small["mean_low"].to_numpy() == pytest.approx(np.min(each, axis=0))
    assert (small["mean_high"] > small["mean_low"]).all()
    assert len(figure.axes) == 8, "one row of four panels for each run"
    assert "small: mean and range of 2 seeds." in caption


def test_training_draws_seeds_as_one_band() -> None:
    """Three seeds and another run: the band is from the lowest to the highest, over the steps that all have."""
    seeds = [_trained(f"small-seed{seed}", seed) for seed in (0, 1)] + [
        _trained("small-seed2", 2, (0, 10, 20, 30))
    ]
    data, caption, figure = drawn("training", [*seeds, _trained("large", 5)])
    assert [ax.get_title() for ax in figure.axes][:1] == ["loss"]
    assert len(figure.axes) == 4, "no learning rate was logged"
    small = data[(data["run"] == "small") & (data["measure"] == "loss")]
    assert small["step"].tolist() == [0, 10, 20], "step 30 has one seed only"
    assert small["mean"].tolist() == [1.0, 2.0, 3.0]
    assert (small["low"].tolist(), small["high"].tolist()) == ([0.0, 1.0, 2.0], [2.0, 3.0, 4.0])
    assert set(data.loc[data["run"] == "large", "seeds"]) == {1}
    assert len(figure.axes[0].collections) == 1, "one band, of the run with several seeds"
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [3, 3]
    assert "small: mean and range of 3 seeds." in caption
    cosine = data[(data["run"] == "small") & (data["measure"] == "mean_cosine") & (data["step"] == 10)][
        "mean"
    ].item()
    tables = [one.tables["series"] for one in seeds]
    each = [
        t[(t["step"] == 10) & (t["population"] == "all") & t["layer_name"].str.startswith("block")]["mean_cosine"]
        for t in tables
    ]
    assert cosine == pytest.approx(np.mean([part.mean() for part in each]))


def test_training_requires_the_loss() -> None:
    with pytest.raises(InputError, match=r"has no loss; a probe keeps it: `probe\(model, step, loss=loss\)`"):
        make(find("dynamics/training"), [ONE])


def _with_batches(name: str = "run", steps: tuple[int, ...] = (0, 10, 20), *, loss: bool = True) -> SurveyData:
    """Return a series whose training batches are measured at every step but the first, 1 above the probe set."""
    series = make_series(name, steps, attention=False)
    series.tables["series"] = series.table.assign(effective_rank=series.table["anisotropy_svd"] * 10)
    later = series.table[series.table["step"] > 0]
    shifted = {column: later[column] + 1 for column in ("mean_cosine", "effective_rank", "anisotropy_svd")}
    series.tables["batches"] = later.assign(passes=3, **shifted).reset_index(drop=True)
    if loss:
        every = range(steps[-1] + 1)
        series.tables["training"] = pd.DataFrame({"step": every, "loss": 3.0, "learning_rate": 1e-3})
    return series.as_survey_data()


def test_batches_are_drawn_beside_the_probe_set() -> None:
    """By default of the first, the middle and the last block; the first step ends no window."""
    survey = _with_batches()
    data, caption, figure = drawn("batches", [survey])
    titles = ["loss", "learning rate", "mean cosine", "effective rank", "SVD anisotropy"]
    assert [ax.get_title() for ax in figure.axes] == titles
    assert [len(ax.lines) for ax in figure.axes] == [1, 1, 6, 6, 6]
    table, batches = survey.tables["series"], survey.tables["batches"]
    cosine = iter(figure.axes[2].lines)
    for source, steps in ((table, [0, 10, 20]), (batches, [10, 20])):
        for name in ("block 1", "block 2", "block 4"):
            rows = source[(source["layer_name"] == name) & (source["population"] == "all")]
            line = next(cosine)
            assert line.get_xdata().tolist() == steps
            assert line.get_ydata() == pytest.approx(rows["mean_cosine"].to_numpy())
            assert (line.get_linestyle() == "-") == (source is table)
    assert figure.axes[0].lines[0].get_xdata().tolist() == list(range(21))
    assert figure.axes[0].get_xscale() == "linear", "the scale is that of the measured steps, not of the loss"
    (legend,) = figure.findobj(Legend)
    assert [text.get_text() for text in legend.get_texts()] == [
        "block 1",
        "block 2",
        "block 4",
        "probe set",
        "training batches",
    ]
    assert set(data["source"]) == {"probe set", "training batches", "logged"}
    assert "stands at the measurement that ends it" in caption


def test_batches_of_chosen_layers_and_of_several_series() -> None:
    given = [_with_batches(), _with_batches("without loss", loss=False)]
    choice = Choice("without-first", layers=(4, 0))
    data, _, figure = drawn("batches", given, choice)
    assert set(data["layer_name"].dropna()) == {"embeddings", "block 4"}
    assert len(figure.axes) == 10
    assert [len(ax.lines) for ax in figure.axes] == [1, 1, 4, 4, 4, 0, 0, 4, 4, 4]
    assert [figure.axes[at].get_ylabel() for at in (0, 5)] == ["run", "without loss"]
    with pytest.raises(InputError, match="--layer 9: the survey of run has layers 0 to 5"):
        drawn("batches", given, Choice(layers=(9,)))
    with pytest.raises(InputError, match="has none; give training_batches=8 to the probe or callback"):
        make(find("dynamics/batches"), [ONE])


def test_streams_are_not_among_the_batches_that_figures_show() -> None:
    series = make_series(steps=(0, 10), attention=False)
    blocks = series.table[series.table["layer_name"].str.startswith("block")]
    keys = blocks.assign(layer=blocks["layer"] + 100, layer_name=blocks["layer_name"] + "/k")
    series.tables["series"] = pd.concat([series.table, keys], ignore_index=True)
    series.tables["batches"] = series.table[series.table["step"] == 10]
    shown = series.as_survey_data().tables
    assert max(shown["series"]["layer"]) == max(shown["batches"]["layer"]) == 5


def test_seeds_without_a_loss_are_one_band() -> None:
    """Checkpoints of several seeds, surveyed by `theodolite dynamics`: in fig2 and in `theodolite compare`."""
    series = [make_series(f"small-seed{seed}", (0, 10, 20), seed=seed) for seed in (1, 2, 3)]
    surveys = [*(one.as_survey_data() for one in series), TWO]
    means = []
    for one in series:
        blocks = one.table[one.table["layer_name"].str.startswith("block") & (one.table["population"] == "all")]
        means.append(blocks.groupby("step")[["twonn", "mean_cosine"]].mean())
    for name, column, data, caption, ax in (
        ("fig2", "twonn", *_data_and_axes(make(find("dynamics/fig2"), surveys, Choice()))),
        ("compare", "mean_cosine", *_data_and_axes(compare_series(surveys, ["mean_cosine"], Choice()))),
    ):
        values = np.stack([one[column].to_numpy() for one in means])
        key = "mean" if name == "fig2" else column
        rows = data[data["survey"] == "small"]
        rows = rows[rows["scope"] == "blocks"] if name == "fig2" else rows
        assert rows["step"].tolist() == [0, 10, 20]
        assert rows[key].to_numpy() == pytest.approx(values.mean(axis=0))
        assert rows[f"{key}_low"].to_numpy() == pytest.approx(values.min(axis=0))
        assert rows[f"{key}_high"].to_numpy() == pytest.approx(values.max(axis=0))
        assert "small: mean and range of 3 seeds." in caption
        assert set(data["survey"]) == {"small", "other"}
        band = ax.collections[0].get_paths()[0].vertices
        if name == "compare":
            assert band[:, 1].max() == pytest.approx(values.max())
            assert band[:, 1].min() == pytest.approx(values.min())
    assert "Both means" not in make(find("dynamics/fig2"), surveys, Choice()).caption


def _data_and_axes(plate: Plate) -> tuple[pd.DataFrame, str, Axes]:
    return plate.data, plate.caption, compose(plate).axes[0]
