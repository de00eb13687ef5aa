"""fig7 to fig10: attention scores, queries and keys, and softmax weights of one block as the input bias grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.block_lines import (
    BLOCK_COMMAND,
    UNIFORM,
    compose_block_caption,
    describe_runs,
    draw_by_norm,
    draw_shared_legend,
    draw_uniform_weight,
    format_norm_axis,
    use_log_scale,
)
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.panels import choose_grid, make_panels
from theodolite.exhibits.drawing.style import BLUE, PALE, VERMILLION, LineStyle, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.studies.block.results import block_labels, histograms, over_heads, over_runs, shown_lengths
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData
from theodolite.text import format_scientific

HISTOGRAM_OFFSET = 0.55
"""The vertical distance between two histograms, whose peaks have the height 1."""


@exhibit(
    "anisotropy-inherent/fig7",
    title="Histograms of attention scores before the softmax, by the norm of the input bias",
    needs=[require_laboratory("block", BLOCK_COMMAND)],
    reads=(),
)
def fig7(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw histograms of the scores of all heads for several norms of the bias, one above the other."""
    names = block_labels(surveys)
    tables = [histograms(survey, name) for survey, name in zip(surveys, names, strict=True)]
    rows, across = choose_grid(len(surveys))

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys))
        for ax, table, name in zip(axes, tables, names, strict=False):
            _draw_scores(ax, table)
            ax.set_title(clean_label(name))

    caption = compose_block_caption(
        surveys,
        "Histograms of q kᵀ/√d_k over all heads and all pairs of positions that are not masked, for several norms "
        "N of the bias, each scaled to a peak of 1. First run only: with another direction of the bias, heads can "
        "move the other way.",
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, (max(4.2, 2.7 * across), 2.8 * rows))


def _draw_scores(ax: Axes, table: pd.DataFrame) -> None:
    norms = sorted(table["norm"].unique())
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(norms)))
    ax.axvline(0, c=PALE, lw=0.7, zorder=0)
    for place, norm in reversed(list(enumerate(norms))):
        bins, foot = table[table["norm"] == norm], place * HISTOGRAM_OFFSET
        edges = np.append(bins["left"].to_numpy(np.float64), bins["right"].iloc[-1])
        heights = bins["height"].to_numpy(np.float64) + foot
        style = {"baseline": foot, "zorder": 3 - 0.1 * place}
        ax.stairs(heights, edges, fill=True, fc=(*colours[place][:3], 0.45), ec=colours[place], lw=0.8, **style)
        ax.text(
            1.01, foot + 0.04, f"N = {format_scientific(norm)}", transform=ax.get_yaxis_transform(), fontsize=6.5
        )
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("score before the softmax")


HEAD_STYLES = {"query": LineStyle(BLUE, "o", "-"), "key": LineStyle(VERMILLION, "s", "-")}
HEAD_LABELS = {"query": "queries", "key": "keys"}


@exhibit(
    "anisotropy-inherent/fig8",
    title="Norms and cosines of queries and keys, by the norm of the input bias",
    needs=[require_laboratory("block", BLOCK_COMMAND)],
    reads=(),
)
def fig8(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the mean norm and the mean cosine of queries and keys, before and after rotation."""
    names = block_labels(surveys)
    columns = ("mean_norm", "mean_cosine")
    tables = [over_heads(survey, columns, name) for survey, name in zip(surveys, names, strict=True)]
    has_rotated = any(table["rotated"].any() for table in tables)

    def draw(figure: FigureBase) -> None:
        every = figure.subplots(len(surveys), 2, squeeze=False)
        for axes, table, name in zip(every, tables, names, strict=True):
            _draw_heads(axes[0], table, "mean_norm", "mean norm")
            _draw_heads(axes[1], table, "mean_cosine", "mean cosine")
            use_log_scale(axes[0])
            axes[1].axhline(0, c=PALE, lw=0.7, zorder=0)
            axes[1].set_ylim(min(-0.03, axes[1].get_ylim()[0]), 1.03)
            axes[0].legend(loc="upper left")
            for ax in axes:
                format_norm_axis(ax, table)
                ax.set_title(clean_label(name))

    caption = compose_block_caption(
        surveys,
        "Mean norm of the queries and keys of one block, and mean cosine over all pairs of positions per head, "
        "before rotation by position. Line: mean over heads. Strip: lowest to highest head. First run only.",
        "Dotted: after rotation by position, which does not change norms." if has_rotated else "",
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, (6.2, 2.5 * len(surveys)))


def _draw_heads(ax: Axes, table: pd.DataFrame, column: str, label: str) -> None:
    for of, line in HEAD_STYLES.items():
        rows = table[table["of"] == of]
        draw_by_norm(ax, rows[~rows["rotated"]], column, line, label=HEAD_LABELS[of])
        after = rows[rows["rotated"]].drop(columns=[f"{column}_low", f"{column}_high"])
        if len(after):
            draw_by_norm(ax, after, column, line, ls=":", mfc="white")
    ax.set_ylabel(label)


STATISTICS = ("maximum", "median", "minimum")
EXTREMES = {"maximum": LineStyle(VERMILLION, "^", "-"), "minimum": LineStyle(BLUE, "v", "-")}


@exhibit(
    "anisotropy-inherent/fig9",
    title="Maximum, median and minimum of softmax weights per row, by the norm of the input bias",
    needs=[require_laboratory("block", BLOCK_COMMAND)],
    reads=(),
)
def fig9(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw maximum, median and minimum of the weights of a row, one panel each, by row length if rows differ."""
    names = block_labels(surveys)
    tables = [
        over_runs(survey, "softmax", STATISTICS, ["length"], name)
        for survey, name in zip(surveys, names, strict=True)
    ]
    shown = [shown_lengths(survey) for survey in surveys]
    kept = [table[table["length"].isin(lengths)] for table, lengths in zip(tables, shown, strict=True)]

    def draw(figure: FigureBase) -> None:
        every = figure.subplots(len(surveys), 3, squeeze=False, sharey="row")
        for axes, table, lengths, name in zip(every, kept, shown, names, strict=True):
            for ax, statistic in zip(axes, STATISTICS, strict=True):
                for place, length in enumerate(lengths):
                    rows = table[table["length"] == length]
                    draw_by_norm(ax, rows, statistic, get_line_style(place), ls="-", label=f"{length} entries")
                    draw_uniform_weight(ax, length)
                ax.set_title(statistic)
                format_norm_axis(ax, table)
            axes[0].set_ylabel(f"{clean_label(name)}\nsoftmax", fontsize=7)
            use_log_scale(*axes)
            axes[0].legend(*_length_legend(axes[0]), loc="best", fontsize=6.5)

    caption = compose_block_caption(
        surveys,
        "Maximum, median and minimum of the weights of a row of the softmax without masked entries, mean over "
        "sequences, heads and rows of the same length. Dotted: all weights equal.",
        describe_runs(surveys),
    )
    return Plate(pd.concat(kept, ignore_index=True), caption, draw, (7.0, 2.3 * len(surveys)))


@exhibit(
    "anisotropy-inherent/fig10",
    title="Largest and smallest softmax weight per sequence, by the norm of the input bias",
    needs=[require_laboratory("block", BLOCK_COMMAND)],
    reads=(),
)
def fig10(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the largest and smallest weight per sequence, per head and over all heads."""
    names = block_labels(surveys)
    columns = [name + ending for name in EXTREMES for ending in ("", "_any_head")]
    tables = [
        over_runs(survey, "extremes", columns, ["least_length"], name)
        for survey, name in zip(surveys, names, strict=True)
    ]
    kept = [table[table["least_length"] == table["least_length"].max()] for table in tables]
    causal = any(bool((table["least_length"] > 1).any()) for table in kept)
    rows, across = choose_grid(len(surveys))

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys))
        for ax, table, survey, name in zip(axes, kept, surveys, names, strict=False):
            for end, line in EXTREMES.items():
                draw_by_norm(ax, table, end, line, label=f"{end}, per head")
                draw_by_norm(ax, table, f"{end}_any_head", line, ls=":", mfc="white", label=f"{end}, all heads")
            draw_uniform_weight(ax, max(shown_lengths(survey)))
            use_log_scale(ax)
            ax.set_ylabel("softmax")
            ax.set_title(clean_label(name))
            format_norm_axis(ax, table)
        draw_shared_legend(figure, axes[0], 2 if across == 1 else 4)

    caption = compose_block_caption(
        surveys,
        "Largest and smallest softmax weight of a sequence, per head (mean over heads and sequences) and over all "
        "heads (mean over sequences). Dotted grey: all weights of the longest row equal.",
        "If rows differ in length, only rows of at least half the maximum length are used: the weight in the "
        "first row is always 1."
        if causal
        else "",
        describe_runs(surveys),
    )
    return Plate(pd.concat(kept, ignore_index=True), caption, draw, (max(4.2, 2.7 * across), 2.7 * rows + 0.2))


def _length_legend(ax: Axes) -> tuple[list[Any], list[Any]]:
    """Return the handles and labels of the legend, one per row length."""
    kept = [pair for pair in zip(*ax.get_legend_handles_labels(), strict=True) if pair[1] != UNIFORM]
    return [handle for handle, _ in kept], [word for _, word in kept]
