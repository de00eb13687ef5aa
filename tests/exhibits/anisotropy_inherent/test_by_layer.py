"""Exhibits of anisotropy-inherent and dynamics/fig1: what is drawn, read back from the axes; what is omitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import pearsonr, spearmanr
from tests.exhibits.formats import take_turns
from tests.synthetic_surveys import make_layer_names, make_layer_survey

from theodolite.errors import InputError
from theodolite.exhibits.drawing.style import get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import all_exhibits, find, make
from theodolite.exhibits.saving import PICTURES, TABLES, compose, save
from theodolite.studies.anisotropy.published import FIGURES
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

CONTEXTUAL = "self_similarity intra_similarity mev".split()


def contextual(seed: int, layers: int) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    names = [name + ending for name in CONTEXTUAL for ending in ("", "_adjusted", "_se")]
    return {name: list(rng.uniform(0, 0.05 if name.endswith("_se") else 1, layers)) for name in names}


BERT = make_layer_survey("bert", seed=1, **contextual(1, 7))
GPT2 = make_layer_survey("gpt2", make_layer_names(9, final_norm=True), model={"causal": True}, seed=2)
T5 = make_layer_survey(
    "t5", make_layer_names(3, stack="encoder", final_norm=True) + make_layer_names(3, stack="decoder"), seed=3
)
BYT5 = make_layer_survey(
    "byt5",
    make_layer_names(4, stack="encoder") + make_layer_names(2, stack="decoder"),
    model={"level": "character"},
)
WAV = make_layer_survey("wav2vec", model={"modality": "speech"}, seed=4)
WHISPER = make_layer_survey(
    "whisper",
    make_layer_names(4, stack="encoder") + make_layer_names(4, stack="decoder"),
    model={"modality": "speech"},
    seed=7,
)
VIT = make_layer_survey("vit", make_layer_names(8, final_norm=True), model={"modality": "vision"}, seed=5)
RESNET = make_layer_survey(
    "resnet", [f"stage {k}" for k in (1, 2, 3, 4)], model={"modality": "convolution"}, seed=6
)
VECTORS = make_layer_survey("v.npy", ["vectors"], measured=True, populations=("all",))
ONE_LAYER = make_layer_survey("single", ["embeddings"], seed=8)
EVERY = [BERT, GPT2, T5, BYT5, WAV, VIT, RESNET, VECTORS, ONE_LAYER]
NAMES = [name for name, found in all_exhibits().items() if found.paper in ("anisotropy-inherent", "dynamics")]
MINE = [f"anisotropy-inherent/{one}" for one in "fig1 fig2 fig3 fig4 fig5 fig11 contextuality drift".split()]
MINE += ["dynamics/fig1", "dynamics/fig1-populations"]


def drawn(
    name: str, surveys: Sequence[SurveyData], choice: Choice | None = None
) -> tuple[Plate, Figure, list[Axes]]:
    plate = make(find(name), surveys, choice)
    figure = compose(plate)
    return plate, figure, figure.axes


def lines_of(ax: Axes, colour: str | None = None) -> list[np.ndarray]:
    """Lines that join layers: not the rules, the joints or the open markers."""
    found = [
        line for line in ax.lines if line.get_linestyle() not in (":", "None") and line.get_marker() != "None"
    ]
    return [line.get_xydata() for line in found if colour is None or line.get_color() == colour]


def joined(lines: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(lines)


def column(survey: SurveyData, name: str, population: str = "all") -> np.ndarray:
    rows = survey.layers[survey.layers["population"] == population]
    return rows[name].to_numpy(np.float64)


def test_they_are_listed() -> None:
    assert set(MINE) <= set(NAMES)


@pytest.mark.parametrize("population", ["all", "without-first"])
def test_fig1_has_the_cosines_of_text_by_tokens(population: str) -> None:
    plate, _, (ax,) = drawn("anisotropy-inherent/fig1", [BERT, T5, WAV, GPT2], Choice(population))
    found = joined(lines_of(ax))
    expected = np.concatenate([column(survey, "mean_cosine", population) for survey in (BERT, T5, GPT2)])
    assert found[:, 1] == pytest.approx(expected)
    assert found[:, 0].tolist() == [*range(7), *range(9), *range(11)]
    assert set(plate.data["survey"]) == {"bert", "t5", "gpt2"}
    assert "Omitted: wav2vec (speech)." in plate.caption
    assert "Thin line: from the encoder of a model to its decoder." in plate.caption
    assert "Open marker" in plate.caption
    assert "Strip: ±1.96 standard errors, by jackknife" in plate.caption


def test_an_encoder_is_joined_with_its_decoder_by_a_thin_line() -> None:
    _, _, (ax,) = drawn("anisotropy-inherent/fig1", [T5])
    cosine = column(T5, "mean_cosine")
    (joint,) = [line.get_xydata() for line in ax.lines if line.get_linewidth() == 0.5]
    assert joint == pytest.approx(np.array([[4, cosine[4]], [5, cosine[5]]]))
    strip = np.concatenate([path.vertices for fill in ax.collections for path in fill.get_paths()])
    assert strip[:, 1].max() == pytest.approx(cosine.max() + 1.96 * 0.01)


@pytest.mark.parametrize(("number", "survey"), [("fig1", T5), ("fig3", WHISPER)])
def test_encoder_and_decoder_are_named_beside_their_lines(number: str, survey: SurveyData) -> None:
    stacks = list(dict.fromkeys(name.split()[0] for name in survey.layer_names.values()))
    assert stacks == ["encoder", "decoder"]
    plate, figure, (ax,) = drawn(f"anisotropy-inherent/{number}", [survey])
    figure.draw_without_rendering()
    assert [text.get_text() for text in ax.texts] == stacks
    assert {text.get_color() for text in ax.texts} == {get_line_style(0).colour}
    points = ax.transData.transform(plate.data[["layer", "mean_cosine"]].to_numpy())
    for text, rows in zip(ax.texts, (plate.data["stack"] == stack for stack in stacks), strict=True):
        box = text.get_window_extent()
        assert not any(box.contains(*point) for point in points)
        centre = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
        nearest = np.linalg.norm(points - centre, axis=1).argmin()
        assert rows[nearest]
    assert not drawn(f"anisotropy-inherent/{number}", [BERT if number == "fig1" else VIT])[2][0].texts


def test_models_of_unequal_depth_share_an_axis_where_asked() -> None:
    plate, _, (ax,) = drawn("anisotropy-inherent/fig1", [BERT, GPT2, T5], Choice(depth="normalised"))
    of = [lines_of(ax)[place][:, 0] for place in range(2)]
    assert of[0] == pytest.approx(np.arange(7) / 6)
    assert of[1] == pytest.approx(np.arange(11) / 9)
    assert plate.data.query("survey == 't5'")["joined_depth"].tolist() == pytest.approx(np.arange(9) / 8)
    assert ax.get_xlabel().startswith("depth")


@pytest.mark.parametrize(("number", "survey"), [("fig2", BYT5), ("fig4", RESNET)])
def test_other_kinds_have_their_own_figures(number: str, survey: SurveyData) -> None:
    plate, _, (ax,) = drawn(f"anisotropy-inherent/{number}", EVERY)
    assert joined(lines_of(ax))[:, 1] == pytest.approx(column(survey, "mean_cosine"))
    assert set(plate.data["survey"]) == {survey.model}
    assert plate.caption.count("Omitted:") == 1


def test_fig3_has_a_panel_for_speech_and_one_for_vision() -> None:
    _, figure, axes = drawn("anisotropy-inherent/fig3", EVERY)
    assert [ax.get_title() for ax in axes] == ["speech", "vision"]
    for ax, survey in zip(axes, (WAV, VIT), strict=True):
        assert joined(lines_of(ax))[:, 1] == pytest.approx(column(survey, "mean_cosine"))
    assert [text.get_text() for text in figure.subfigs[0].legends[0].get_texts()] == ["wav2vec", "vit"]
    _, _, alone = drawn("anisotropy-inherent/fig3", [VIT])
    assert [ax.get_title() for ax in alone] == ["vision"]


@pytest.mark.parametrize(
    ("name", "surveys", "words"),
    [
        (
            "anisotropy-inherent/fig1",
            [WAV],
            "needs surveys of token-level text models: wav2vec is a speech model; ",
        ),
        ("anisotropy-inherent/fig2", [BERT], "`theodolite survey google/byt5-small --corpus CORPUS --out DIR`"),
        ("anisotropy-inherent/fig3", [BERT], "`theodolite survey whisper-tiny-en --corpus"),
        (
            "anisotropy-inherent/fig4",
            [VECTORS],
            "v.npy was measured without a model; survey one with `theodolite survey resnet-50 --corpus pictures",
        ),
        (
            "dynamics/fig1",
            [RESNET],
            "resnet is a convolutional model; survey one with `theodolite survey smollm2-135m",
        ),
        ("anisotropy-inherent/contextuality", [GPT2], "--corpus notes.txt --contextuality --out DIR`"),
    ],
)
def test_if_no_survey_remains_the_error_names_a_command(name: str, surveys: list[SurveyData], words: str) -> None:
    with pytest.raises(InputError) as error:
        make(find(name), surveys)
    assert words in str(error.value)


def test_only_populations_of_drawn_surveys_are_checked() -> None:
    plate, _, _ = drawn("anisotropy-inherent/fig1", [BERT, VECTORS], Choice("without-first"))
    assert set(plate.data["survey"]) == {"bert"}
    with pytest.raises(InputError, match="--population 'without-first'"):
        make(find("anisotropy-inherent/fig5"), [BERT, VECTORS], Choice("without-first"))


@pytest.mark.parametrize("name", ["norm-variance/fig4", "anisotropy-inherent/fig5"])
def test_exhibits_without_a_layer_axis_do_not_use_depth(name: str) -> None:
    with pytest.raises(InputError, match="does not use --depth"):
        make(find(name), [BERT], Choice(depth="layer"))
    with pytest.raises(InputError, match="--depth 'deep' is not one of layer, normalised"):
        Choice(depth="deep")


@pytest.mark.parametrize(
    ("number", "test", "theirs"), [("fig5", "spearman", spearmanr), ("fig11", "pearson", pearsonr)]
)
def test_p_values_have_one_row_per_model(number: str, test: str, theirs) -> None:
    surveys = [WAV, BERT, T5, RESNET]
    plate, _, axes = drawn(f"anisotropy-inherent/{number}", surveys)
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["bert", "t5", "wav2vec", "resnet"]
    marks = {
        (line.get_marker(), float(line.get_ydata()[0])): line
        for line in axes[0].lines
        if len(line.get_xdata()) == 1
    }
    for row, survey in enumerate((BERT, T5, WAV, RESNET)):
        rows = survey.layers.query("population == 'all' and library_index.notna()")
        expected = theirs(np.sqrt(rows["m"]), rows["mean_cosine"])
        mark = marks["o", row]
        assert mark.get_xdata()[0] == pytest.approx(expected.pvalue)
        assert (mark.get_markerfacecolor() == "white") == (expected.statistic < 0)
    assert {marker for marker, row in marks if row == 1} == {"o", "<", ">"}
    for ax in axes:
        assert ax.get_xscale() == "log"
        (level,) = [line for line in ax.lines if line.get_color() == "red"]
        assert level.get_xdata()[0] == 0.05
        assert level.get_linestyle() == ":"
    assert [("not in the paper" in ax.get_title()) for ax in axes] == [False, True, True, True]
    floors = [line.get_xdata()[0] for line in axes[2].lines if line.get_marker() == "|"]
    assert floors == pytest.approx([1 / 7, 1 / 8, 1 / 7, 1 / 4])
    shifts = plate.data.query("stack == 'joined'")[f"{test}_shift_p"]
    on_axes = [line.get_xdata()[0] for line in axes[2].lines if line.get_marker() == "o"]
    assert on_axes == pytest.approx(shifts.tolist())
    for panel, name in ((1, f"{test}_exact_p"), (3, f"{test}_step_exact_p")):
        exact = plate.data.query("stack == 'joined'")[name]
        on_axes = [line.get_xdata()[0] for line in axes[panel].lines if line.get_marker() == "o"]
        assert on_axes == pytest.approx(exact.tolist())
    assert axes[0].get_xlim() == pytest.approx((0.5e-4, 2.5))  # the region that decides, near 0.05


def test_zero_or_undefined_p_is_drawn_and_stated() -> None:
    perfect = make_layer_survey(
        "perfect", m=[k**2 for k in range(1, 8)], mean_cosine=[k / 10 for k in range(1, 8)]
    )
    plate, figure, axes = drawn("anisotropy-inherent/fig11", [perfect, ONE_LAYER, VECTORS])
    figure.canvas.draw()
    assert "Arrows: p-values below 0.0001." in plate.caption
    assert [line.get_xdata()[0] for line in axes[0].lines if line.get_marker() == r"$\leftarrow$"] == [1e-4]
    exact = [line.get_xdata()[0] for line in axes[1].lines if line.get_marker() == "o"]
    assert exact == pytest.approx([2 / 5040])  # 2/7!, where Student's t has 0
    assert [text.get_text() for text in axes[0].texts] == ["undefined", "undefined"]
    assert axes[0].get_xlim()[0] > 0


def test_the_table_of_drift_has_everything() -> None:
    plate, _, _ = drawn("anisotropy-inherent/drift", [BERT, T5], Choice("without-first"))
    assert len(plate.data) == 3 * 2 * (1 + 3)
    assert plate.shown is not None
    assert len(plate.shown) == 2 * (1 + 3)
    rows = BERT.layers.query("population == 'without-first'")
    expected = spearmanr(np.sqrt(rows["m"]), rows["mean_cosine"]).statistic
    assert plate.shown.iloc[0, 4] == f"{expected:.2g}".replace("-", "−")


def test_dynamics_compares_encoders_with_decoders() -> None:
    plate, _, axes = drawn("dynamics/fig1", [BERT, GPT2, T5, RESNET], Choice("without-massive"))
    assert [ax.get_title() for ax in axes] == ["encoders", "decoders"]
    t5 = column(T5, "anisotropy_svd", "without-massive")
    bert, gpt2 = (column(survey, "anisotropy_svd", "without-massive") for survey in (BERT, GPT2))
    assert joined(lines_of(axes[0]))[:, 1] == pytest.approx(np.concatenate([bert, t5[:5]]))
    assert joined(lines_of(axes[1]))[:, 1] == pytest.approx(np.concatenate([gpt2, t5[5:]]))
    assert joined(lines_of(axes[1]))[:, 0] == pytest.approx([*(np.arange(11) / 9), 0, 1 / 3, 2 / 3, 1])
    assert "Omitted: resnet (convolution)." in plate.caption
    _, _, (ax,) = drawn("dynamics/fig1", [GPT2], Choice(depth="layer"))
    assert joined(lines_of(ax))[:, 0].tolist() == list(range(11))


def batched(survey: SurveyData, layers: Sequence[int], count: int = 3) -> SurveyData:
    """The survey with batches at some of its layers."""
    rng = np.random.default_rng(0)
    names = survey.layer_names
    rows = [
        {"layer": at, "layer_name": names[at], "population": one, "kind": kind, "batch": batch, "n": 4100}
        | {"anisotropy_svd": float(rng.uniform()), "twonn": float(rng.uniform(5, 9))}
        for at in layers
        for one in survey.facts["populations"]
        for kind in ("contiguous", "shuffled")
        for batch in range(count)
    ]
    facts = survey.facts | {"batches": {"size": 4096}}
    return SurveyData(facts, survey.tables | {"batches": pd.DataFrame(rows)})


def test_dynamics_draws_means_of_batches_if_available() -> None:
    whole, part = batched(GPT2, range(11)), batched(BERT, [0, 3])
    plate, _, axes = drawn("dynamics/fig1", [part, whole], Choice("without-first"))
    bert = column(BERT, "anisotropy_svd", "without-first")
    assert joined(lines_of(axes[0]))[:, 1] == pytest.approx(bert)  # not of every layer, so of none
    mine = whole.tables["batches"].query("population == 'without-first' and kind == 'contiguous'")
    by = mine.groupby("layer")["anisotropy_svd"]
    assert joined(lines_of(axes[1]))[:, 1] == pytest.approx(by.mean().to_numpy())
    strip = plate.data.query("survey == 'gpt2'")["anisotropy_svd_high"] - by.mean().to_numpy()
    assert strip.to_numpy() == pytest.approx(by.std(ddof=1).to_numpy())
    words = "Mean over 3 contiguous batches of at least 4,096 positions, each centred separately, as in the paper"
    assert (
        f"{words}; strip: ± one standard deviation over batches. Computed over all vectors: bert." in plate.caption
    )
    assert "1.96" not in plate.caption
    plate, _, _ = drawn("dynamics/fig1", [BERT])
    assert "Computed over all vectors; the paper averaged over batches." in plate.caption
    plate, figure, _ = drawn("dynamics/fig1", [batched(BERT, range(7), count=1)])
    figure.canvas.draw()
    assert (
        "Computed over one contiguous batch of at least 4,096 positions, centred separately, as in the paper."
        in plate.caption
    )


def test_populations_of_a_model_are_side_by_side() -> None:
    plate, _, axes = drawn("dynamics/fig1-populations", [BERT, GPT2])
    for ax, survey in zip(axes, (BERT, GPT2), strict=True):
        found = lines_of(ax)
        for line, population in zip(found, ("all", "without-first", "without-massive"), strict=True):
            assert line[:, 1] == pytest.approx(column(survey, "anisotropy_svd", population))
    wide = plate.data.pivot(index=["survey", "layer_name"], columns="population", values="anisotropy_svd")
    model, layer = (wide.max(axis=1) - wide.min(axis=1)).idxmax()
    assert f"The populations differ most at {layer} of {model}:" in plate.caption
    only = make_layer_survey("only", populations=("all",))
    plate, _, _ = drawn("dynamics/fig1-populations", [only])
    assert "differ most" not in plate.caption


def test_contextuality_is_beside_the_published_figures() -> None:
    plate, _, axes = drawn("anisotropy-inherent/contextuality", [BERT, GPT2])
    assert "Omitted: gpt2 (surveyed without `--contextuality`)." in plate.caption
    for ax, name in zip(axes, CONTEXTUAL, strict=True):
        raw, adjusted = (column(BERT, name + ending) for ending in ("", "_adjusted"))
        found = lines_of(ax, "#0072B2")
        assert found[0][:, 1] == pytest.approx(raw)
        assert found[1][:, 1] == pytest.approx(adjusted)
    bert, gpt2 = (np.array(FIGURES[name]) for name in ("BERT", "GPT-2"))
    grey = [line.get_ydata() for line in axes[1].lines if line.get_color() == "#767676"]
    for line, expected in zip(
        grey, (bert[:, 0], gpt2[:, 0], bert[:, 0] - bert[:, 1], gpt2[:, 0] - gpt2[:, 1]), strict=True
    ):
        assert line == pytest.approx(expected)
    grey = [line for line in axes[2].lines if line.get_color() == "#767676"]
    assert [line.get_linestyle() for line in grey] == [":", ":"]  # what he subtracts, not his MEV
    assert grey[1].get_ydata() == pytest.approx(gpt2[:, 2])
    assert "by jackknife" not in plate.caption


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *take_turns([name for name in MINE if find(name).kind != "table"], PICTURES),
        *take_turns([name for name in MINE if find(name).kind == "table"], TABLES),
    ],
)
def test_every_exhibit_is_drawn_in_every_format(name: str, ending: str, tmp_path: Path) -> None:
    found = find(name)
    plate = make(found, EVERY)
    save(found, plate, tmp_path / f"a.{ending}")
    assert (tmp_path / f"a.{ending}").stat().st_size > 100
    assert isinstance(plate.data, pd.DataFrame)


@pytest.mark.parametrize("name", MINE)
def test_undefined_numbers_are_rejected_as_a_figure_and_named_beside_another_survey(name: str) -> None:
    """All columns null, one layer: an error with the reason; beside another survey, a note in the caption."""
    empty = "m m_se mean_cosine mean_cosine_se anisotropy_svd".split()
    nothing: dict[str, list[float | None]] = {key: [None] for key in empty}
    if name.endswith("contextuality"):
        nothing = {key: [0.5] for key in contextual(0, 1)} | nothing
    kinds = {"fig2": {"level": "character"}, "fig3": {"modality": "speech"}, "fig4": {"modality": "convolution"}}
    model = kinds.get(name.partition("/")[2], {})
    survey = make_layer_survey("none", ["embeddings"], model=model, **nothing)
    if find(name).kind == "table" or name.endswith("contextuality"):  # rows of dashes; three panels, not all empty
        _, figure, _ = drawn(name, [survey])
        figure.canvas.draw()
        return
    why = "fewer than three layers" if name.endswith(("fig5", "fig11")) else "is undefined at every layer"
    with pytest.raises(InputError, match=rf"nothing to draw\. none on notes\.txt: .*{why}; survey"):
        make(find(name), [survey])
    known = make_layer_survey("known", make_layer_names(4), model=model)
    plate, figure, _ = drawn(name, [survey, known])
    figure.canvas.draw()
    assert "Not drawn: none on notes.txt (" in plate.caption
    assert why in plate.caption
    assert "known on" not in plate.caption.partition("Not drawn")[2]


def test_many_models_have_distinct_styles() -> None:
    many = [
        make_layer_survey(f"model-{number}", make_layer_names(3 + number % 5), seed=number) for number in range(24)
    ]
    for name in ("anisotropy-inherent/fig1", "anisotropy-inherent/fig5", "dynamics/fig1"):
        plate, figure, _ = drawn(name, many)
        figure.canvas.draw()
        assert plate.data["survey"].nunique() == 24
