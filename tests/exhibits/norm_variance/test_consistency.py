"""norm-variance/consistency: what is drawn, read back from the axes; every format; what is rejected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tests.exhibits.formats import take_turns
from tests.synthetic_surveys import add_contextuality, make_survey, remove_units

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.norm_variance.consistency import FEWEST_NUMBERED, NUMBERED, PAIRS
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

FOUND = find("norm-variance/consistency")
BARE = make_survey("old")
ONE = add_contextuality(make_survey("bert", layers=4))
TWO = add_contextuality(make_survey("gpt2", layers=14, units=30, final_norm=True, seed=1))
BEGINS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def drawn(surveys: Sequence[SurveyData], choice: Choice | None = None) -> tuple[Plate, Figure, list[Axes]]:
    plate = make(FOUND, surveys, choice)
    figure = compose(plate)
    return plate, figure, figure.axes


def lines_of(ax: Axes, dash: str) -> list[np.ndarray]:
    found = [line for line in ax.lines if line.get_linestyle() == dash and len(line.get_xdata()) > 2]
    return [line.get_xydata() for line in found]


def test_layers_are_points_joined_in_their_order_with_their_errors() -> None:
    plate, _, axes = drawn([ONE, TWO])
    for ax, pair in zip(axes[:2], PAIRS, strict=True):
        for path, (_, rows) in zip(lines_of(ax, "-"), plate.data.groupby("survey", sort=False), strict=True):
            assert path == pytest.approx(rows[[pair.cosine, pair.ratio]].to_numpy())
        bars = [segment for held in ax.collections for segment in held.get_segments()]
        assert len(bars) == 2 * (4 + 14)
        first = plate.data.iloc[0]
        ends = [first[f"{pair.ratio}_low"], first[f"{pair.ratio}_high"]]
        assert any(segment[:, 1] == pytest.approx(ends) for segment in bars)
    opened = [line for line in axes[0].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [line.get_xdata()[0] for line in opened] == [plate.data["mean_cosine"].iloc[-1]]


def test_the_first_and_the_last_layer_are_numbered_in_the_models_colour() -> None:
    _, _, axes = drawn([ONE, TWO])
    texts = [text for text in axes[0].texts if text.get_text().isdigit()]
    numbers = [int(text.get_text()) for text in texts]
    assert numbers[:4] == [0, 1, 2, 3]
    assert len(numbers[4:]) == NUMBERED // 2
    assert (numbers[4], numbers[-1]) == (0, 13)
    of_many = [text for text in drawn([ONE] + [TWO] * 4)[2][0].texts if text.get_text().isdigit()]
    assert len(of_many) == 5 * FEWEST_NUMBERED
    assert len({text.get_color() for text in texts[:4]}) == len({text.get_color() for text in texts[4:]}) == 1


def test_numbers_cover_no_other_number_and_no_point() -> None:
    _, figure, axes = drawn([ONE, TWO])
    figure.draw_without_rendering()
    for ax in axes[:2]:
        boxes = [text.get_window_extent() for text in ax.texts if text.get_text().isdigit()]
        points = ax.transData.transform(np.vstack(lines_of(ax, "-")))
        for place, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:place])
            assert not any(box.contains(*point) for point in points)


def test_correlations_are_printed_above_with_the_p_of_shifts() -> None:
    plate, _, axes = drawn([ONE, TWO])
    for ax, pair in zip(axes[:2], PAIRS, strict=True):
        printed = [text.get_text() for text in ax.texts if "shifts" in text.get_text()]
        for words, survey in zip(printed, ("bert", "gpt2"), strict=True):
            row = plate.data.query(f"survey == '{survey}'").iloc[0]
            assert f"$r$ {row[f'{pair.pair}_pearson']:.2f}".replace("-", "−") in words
            assert f"$ρ$ {row[f'{pair.pair}_spearman']:.2f}".replace("-", "−") in words
            assert f"shifts {row[f'{pair.pair}_spearman_shift_p']:.2g})" in words


def test_the_lower_panels_show_both_by_layer_and_the_value_for_equal_norms() -> None:
    plate, _, axes = drawn([ONE])
    for ax, pair in zip(axes[2:], PAIRS, strict=True):
        assert lines_of(ax, "-")[0] == pytest.approx(plate.data[["layer", pair.ratio]].to_numpy())
        assert lines_of(ax, "--")[0] == pytest.approx(plate.data[["layer", pair.cosine]].to_numpy())
    assert lines_of(axes[2], ":") == []
    assert lines_of(axes[3], ":")[0] == pytest.approx(plate.data[["layer", "equal_norms"]].to_numpy())
    _, _, axes = drawn([TWO], Choice(depth="normalised"))
    assert axes[2].get_xlabel().startswith("depth")
    assert lines_of(axes[2], "-")[0][0, 0] == 0


def test_the_caption_names_the_units() -> None:
    caption = drawn([ONE])[0].caption
    assert "M/Q is computed over all units; special units are included." in caption
    assert "V_W/V is computed over units with 1" in caption
    assert "special units are excluded." in caption
    assert "n ≥ 5 that are not special" in caption
    assert "Bars and strips: ±1.96 standard errors." in caption
    other = drawn([ONE], Choice("without-first", "unbiased", specials="kept"))[0]
    assert "of the biased estimates" in other.caption
    assert "all positions except the first of each window" in other.caption
    assert set(other.data["population"]) == {"without-first"}


@pytest.mark.parametrize(("found", "ending"), take_turns([FOUND], BEGINS))
def test_every_format(found: Exhibit, ending: str, tmp_path: Path) -> None:
    save(found, make(found, [ONE, TWO]), tmp_path / f"made.{ending}")
    assert (tmp_path / f"made.{ending}").read_bytes().startswith(BEGINS[ending])


def test_empty_and_one_layer(tmp_path: Path) -> None:
    single = add_contextuality(make_survey(layers=1))
    _, _, axes = drawn([single])
    assert "no correlation: fewer than three layers" in [text.get_text() for text in axes[0].texts]
    hollow = remove_units(BARE)  # its columns are there and all of them NaN, as where no unit occurs five times
    table = hollow.layers.assign(mean_cosine=np.nan, self_similarity=np.nan)
    plate = FOUND.make([SurveyData(hollow.facts, hollow.tables | {"layers": table})], Choice())
    save(FOUND, plate, tmp_path / "empty.png")
    assert "Bars and strips" not in plate.caption


def test_a_survey_without_self_similarity_is_rejected_with_the_command_or_skipped() -> None:
    command = r"`theodolite survey old --corpus notes\.txt --contextuality --out DIR`"
    with pytest.raises(InputError, match=rf"consistency needs surveys made with `--contextuality`: .*{command}"):
        make(FOUND, [BARE.survey])
    assert "Omitted: old (surveyed without `--contextuality`)." in make(FOUND, [BARE.survey, ONE]).caption
    twin = SurveyData(ONE.facts | {"model": BARE.survey.facts["model"]}, ONE.tables)
    assert "Omitted: old on notes.txt" in make(FOUND, [BARE.survey, twin]).caption  # which of the two


def test_unused_options_are_rejected() -> None:
    vectors = SurveyData(ONE.facts | {"model": None}, ONE.tables)
    with pytest.raises(InputError, match="measured without a model; survey one with `theodolite survey MODEL"):
        make(FOUND, [vectors])
    with pytest.raises(InputError, match="does not use --layer"):
        make(FOUND, [ONE], Choice(layers=(1,)))
    with pytest.raises(InputError, match="--populations all,without-massive --out DIR`"):
        make(FOUND, [ONE], Choice("without-massive"))
