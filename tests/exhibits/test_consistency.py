"""norm-variance/consistency: what is drawn, read back from the axes; every format; what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tests.made_up import emptied, made_up
from tests.made_up_contexts import with_contexts

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.consistency import NUMBERED, PAIRS
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import save
from theodolite.exhibits.sheet import compose
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

FOUND = find("norm-variance/consistency")
BARE = made_up("old")
ONE = with_contexts(made_up("bert", layers=4))
TWO = with_contexts(made_up("gpt2", layers=14, units=30, final_norm=True, seed=1))
BEGINS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def drawn(surveys: Sequence[Surveyed], choice: Choice | None = None) -> tuple[Plate, Figure, list[Axes]]:
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
    assert len(numbers[4:]) == NUMBERED
    assert (numbers[4], numbers[-1]) == (0, 13)
    assert len({text.get_color() for text in texts[:4]}) == len({text.get_color() for text in texts[4:]}) == 1


def test_correlations_are_printed_above_with_the_p_of_shifts() -> None:
    plate, _, axes = drawn([ONE, TWO])
    for ax, pair in zip(axes[:2], PAIRS, strict=True):
        printed = [text.get_text() for text in ax.texts if "shifts" in text.get_text()]
        for words, survey in zip(printed, ("bert", "gpt2"), strict=True):
            row = plate.data.query(f"survey == '{survey}'").iloc[0]
            assert f"$r$ {row[f'{pair.pair}_pearson']:.2f}".replace("-", "−") in words
            assert f"$ρ$ {row[f'{pair.pair}_spearman']:.2f}".replace("-", "−") in words
            assert f"shifts {row[f'{pair.pair}_spearman_shift_p']:.2g})" in words


def test_below_both_stand_by_layer_and_what_equal_norms_would_give() -> None:
    plate, _, axes = drawn([ONE])
    for ax, pair in zip(axes[2:], PAIRS, strict=True):
        assert lines_of(ax, "-")[0] == pytest.approx(plate.data[["layer", pair.ratio]].to_numpy())
        assert lines_of(ax, "--")[0] == pytest.approx(plate.data[["layer", pair.cosine]].to_numpy())
    assert lines_of(axes[2], ":") == []
    assert lines_of(axes[3], ":")[0] == pytest.approx(plate.data[["layer", "equal_norms"]].to_numpy())
    _, _, axes = drawn([TWO], Choice(depth="normalised"))
    assert axes[2].get_xlabel().startswith("depth")
    assert lines_of(axes[2], "-")[0][0, 0] == 0


def test_the_caption_says_which_units() -> None:
    told = drawn([ONE])[0].caption
    assert "M/Q is over all units; special units are kept." in told
    assert "V_W/V is over units with 1" in told
    assert "special units are left out." in told
    assert "n ≥ 5 that are not special" in told
    assert "Bars and strips: ±1.96 standard errors." in told
    other = drawn([ONE], Choice("without-first", "unbiased", specials="kept"))[0]
    assert "of the biased numbers" in other.caption
    assert "positions other than a window's first" in other.caption
    assert set(other.data["population"]) == {"without-first"}


def test_every_format_empty_and_one_layer(tmp_path: Path) -> None:
    plate = make(FOUND, [ONE, TWO])
    for ending, begin in BEGINS.items():
        save(FOUND, plate, tmp_path / f"made.{ending}")
        assert (tmp_path / f"made.{ending}").read_bytes().startswith(begin)
    single = with_contexts(made_up(layers=1))
    _, _, axes = drawn([single])
    assert "no correlation: fewer than three layers" in [text.get_text() for text in axes[0].texts]
    hollow = emptied(BARE)  # its columns are there and all of them NaN, as where no unit occurs five times
    table = hollow.layers.assign(mean_cosine=np.nan, self_similarity=np.nan)
    plate = FOUND.make([Surveyed(hollow.facts, hollow.tables | {"layers": table})], Choice())
    save(FOUND, plate, tmp_path / "empty.png")
    assert "Bars and strips" not in plate.caption


def test_a_survey_without_self_similarity_is_refused_with_the_command_or_left_out() -> None:
    command = r"`theodolite survey old --corpus notes\.txt --contextuality --out DIR` would"
    with pytest.raises(InputError, match=rf"consistency needs surveys made with `--contextuality`: .*{command}"):
        make(FOUND, [BARE.survey])
    assert "Left out: old (without `--contextuality`)." in make(FOUND, [BARE.survey, ONE]).caption
    twin = Surveyed(ONE.facts | {"model": BARE.survey.facts["model"]}, ONE.tables)
    assert "Left out: old on notes.txt" in make(FOUND, [BARE.survey, twin]).caption  # which of the two


def test_what_it_does_not_heed_is_refused() -> None:
    vectors = Surveyed(ONE.facts | {"model": None}, ONE.tables)
    with pytest.raises(InputError, match="measured without a model; `theodolite survey MODEL"):
        make(FOUND, [vectors])
    with pytest.raises(InputError, match="is not of one layer"):
        make(FOUND, [ONE], Choice(layers=(1,)))
    with pytest.raises(InputError, match="--populations all,without-massive --out DIR` would tell it"):
        make(FOUND, [ONE], Choice("without-massive"))
