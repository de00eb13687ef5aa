"""fig9 and fig10: softmax weights of rows, and their extremes over whole sequences, as the bias grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.block_lines import (
    UNIFORM,
    WAY,
    block_caption,
    draw_numbers,
    finish,
    legend_above,
    panels,
    runs_strip,
    scale,
    uniform,
)
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLUE, VERMILLION, Look, look
from theodolite.exhibits.text import plain
from theodolite.studies.block.reading import block_labels, over_runs, shown_lengths
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

STATISTICS = ("maximum", "median", "minimum")
ENDS = {"maximum": Look(VERMILLION, "^", "-"), "minimum": Look(BLUE, "v", "-")}


@exhibit(
    "anisotropy-inherent/fig9",
    title="Maximum, median and minimum of the softmax as the input bias grows",
    needs=[of_laboratory("block", WAY)],
    reads=(),
)
def fig9(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the three weights of rows, a panel each, by the length of rows where they differ."""
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
                    draw_numbers(ax, rows, statistic, look(place), ls="-", label=f"{length} entries")
                    uniform(ax, length)
                ax.set_title(statistic)
                finish(ax, table)
            axes[0].set_ylabel(f"{plain(name)}\nsoftmax", fontsize=7)
            scale(*axes)
            axes[0].legend(*_lengths(axes[0]), loc="best", fontsize=6.5)

    told = block_caption(
        surveys,
        "Largest, middle and smallest weight of each row of the softmax, mean over sequences, heads and rows of "
        "that many entries; masked entries do not count. Dotted: all weights equal.",
        runs_strip(surveys),
    )
    return Plate(pd.concat(kept, ignore_index=True), told, draw, (7.0, 2.3 * len(surveys)))


@exhibit(
    "anisotropy-inherent/fig10",
    title="Extremes of the softmax over whole sequences as the input bias grows",
    needs=[of_laboratory("block", WAY)],
    reads=(),
)
def fig10(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the largest and smallest weight of whole sequences, by head and over all heads."""
    names = block_labels(surveys)
    columns = [name + ending for name in ENDS for ending in ("", "_any_head")]
    tables = [
        over_runs(survey, "extremes", columns, ["least_length"], name)
        for survey, name in zip(surveys, names, strict=True)
    ]
    kept = [table[table["least_length"] == table["least_length"].max()] for table in tables]
    causal = any(bool((table["least_length"] > 1).any()) for table in kept)
    rows, across = panels(len(surveys))

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(rows, across, squeeze=False).ravel()
        for ax, table, survey, name in zip(axes, kept, surveys, names, strict=False):
            for end, line in ENDS.items():
                draw_numbers(ax, table, end, line, label=f"{end}, a head")
                draw_numbers(ax, table, f"{end}_any_head", line, ls=":", mfc="white", label=f"{end}, all heads")
            uniform(ax, max(shown_lengths(survey)))
            scale(ax)
            ax.set_ylabel("softmax")
            ax.set_title(plain(name))
            finish(ax, table)
        for ax in axes[len(surveys) :]:
            ax.set_axis_off()
        legend_above(figure, axes[0], 2 if across == 1 else 4)

    told = block_caption(
        surveys,
        "Largest and smallest weight over whole sequences: of each head (mean over heads and sequences), and of "
        "all heads together (mean over sequences). Dotted grey: all weights of the longest row equal.",
        "Where rows differ in length, only those of at least half the greatest: the first has the weight 1 always."
        if causal
        else "",
        runs_strip(surveys),
    )
    return Plate(pd.concat(kept, ignore_index=True), told, draw, (max(4.2, 2.7 * across), 2.7 * rows + 0.2))


def _lengths(ax: Axes) -> tuple[list[Any], list[Any]]:
    """Return the legend's handles and words: one a length of rows."""
    kept = [pair for pair in zip(*ax.get_legend_handles_labels(), strict=True) if pair[1] != UNIFORM]
    return [handle for handle, _ in kept], [word for _, word in kept]
