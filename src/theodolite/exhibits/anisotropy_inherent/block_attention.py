"""fig7 to fig10: attention scores, queries and keys, and softmax weights of one block as the input bias grows."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

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
from theodolite.exhibits.drawing.style import BLUE, GREY, PALE, VERMILLION, LineStyle, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.studies.block.results import (
    SHOWN_LENGTHS,
    block_labels,
    histograms,
    over_heads,
    over_runs,
    shown_lengths,
)
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData
from theodolite.text import format_scientific

HISTOGRAM_OFFSET = 1.15
"""The vertical distance between two histograms, whose peaks have the height 1. They do not overlap."""
VISIBLE = 0.01  # the axis and the ranges beside it cover the bins higher than this


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
        f"Below N: the range of the bins higher than {VISIBLE:g}.",
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, (max(4.2, 3.4 * across), 3.3 * rows))


def _draw_scores(ax: Axes, table: pd.DataFrame) -> None:
    norms = sorted(table["norm"].unique())
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(norms)))
    ax.axvline(0, c=PALE, lw=0.7, zorder=0)
    seen = table[table["height"] > VISIBLE]
    for place, norm in enumerate(norms):
        bins, foot = table[table["norm"] == norm], place * HISTOGRAM_OFFSET
        edges = np.append(bins["left"].to_numpy(np.float64), bins["right"].iloc[-1])
        fill = {"fc": (*colours[place][:3], 0.45), "ec": colours[place], "lw": 0.8}
        ax.axhline(foot, c=PALE, lw=0.5, zorder=0)
        ax.stairs(bins["height"].to_numpy(np.float64) + foot, edges, fill=True, baseline=foot, **fill)
        low, high = seen.loc[seen["norm"] == norm, "left"].min(), seen.loc[seen["norm"] == norm, "right"].max()
        text = f"N = {format_scientific(norm)}\n{format_scientific(low, 2)} to {format_scientific(high, 2)}"
        ax.text(1.01, foot + 0.08, text, transform=ax.get_yaxis_transform(), fontsize=6.5, linespacing=1.4)
    low, high = seen["left"].min(), seen["right"].max()
    ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.set_ylim(-0.04, len(norms) * HISTOGRAM_OFFSET)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
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
        parts = figure.subfigures(len(surveys), 1, squeeze=False).ravel()
        for part, table, lengths, name in zip(parts, kept, shown, names, strict=True):
            axes = part.subplots(1, 3, sharey=True)
            for ax, statistic in zip(axes, STATISTICS, strict=True):
                for place, length in enumerate(lengths):
                    rows = table[table["length"] == length]
                    draw_by_norm(ax, rows, statistic, get_line_style(place), ls="-", label=f"{length} entries")
                    draw_uniform_weight(ax, length)
                ax.set_title(statistic)
                format_norm_axis(ax, table)
            axes[0].set_ylabel(f"{clean_label(name)}\nsoftmax", fontsize=7)
            use_log_scale(*axes)
            part.legend(handles=_length_legend(lengths), loc="outside upper center", ncols=SHOWN_LENGTHS + 1)

    caption = compose_block_caption(
        surveys,
        "Maximum, median and minimum of the weights of a row of the softmax without masked entries, mean over "
        "sequences, heads and rows of the same length. Dotted: all weights equal.",
        describe_runs(surveys),
    )
    return Plate(pd.concat(kept, ignore_index=True), caption, draw, (7.0, 2.5 * len(surveys)))


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
            longest, least = max(shown_lengths(survey)), int(table["least_length"].max())
            for length in dict.fromkeys([longest, least] if least > 1 else [longest]):
                draw_uniform_weight(ax, length)
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
        "first row is always 1. The upper dotted line is for the shortest of these rows: with equal weights, the "
        "largest weight would be on it, and the smallest on the lower one."
        if causal
        else "",
        describe_runs(surveys),
    )
    return Plate(pd.concat(kept, ignore_index=True), caption, draw, (max(4.2, 2.7 * across), 2.7 * rows + 0.2))


def _length_legend(lengths: Sequence[int]) -> list[Line2D]:
    """Return the legend of one model: a line per row length, and the line of equal weights."""
    styles = [get_line_style(place) for place in range(len(lengths))]
    lines = [
        Line2D([], [], c=style.colour, marker=style.marker, ms=3.0, lw=1.1, label=f"rows of {length:,} entries")
        for style, length in zip(styles, lengths, strict=True)
    ]
    return [*lines, Line2D([], [], c=GREY, ls=":", lw=0.9, label=UNIFORM)]
