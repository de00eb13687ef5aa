"""fig7: histograms of the scores before the softmax, by the norm of the bias."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.block_lines import WAY, block_caption, panels
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import PALE
from theodolite.exhibits.text import number, plain
from theodolite.studies.block.reading import block_labels, histograms
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

STEP = 0.55
"""How much higher each histogram stands than the one before; peaks are 1 high."""


@exhibit(
    "anisotropy-inherent/fig7",
    title="Histograms of pre-softmax attention scores by the norm of the input bias",
    needs=[of_laboratory("block", WAY)],
    reads=(),
)
def fig7(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the scores of all heads for a few norms of the bias, one above the other."""
    names = block_labels(surveys)
    tables = [histograms(survey, name) for survey, name in zip(surveys, names, strict=True)]
    rows, across = panels(len(surveys))

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(rows, across, squeeze=False).ravel()
        for ax, table, name in zip(axes, tables, names, strict=False):
            _panel(ax, table)
            ax.set_title(plain(name))
        for ax in axes[len(surveys) :]:
            ax.set_axis_off()

    told = block_caption(
        surveys,
        "Histograms of q kᵀ/√d_k over all heads and pairs of positions that are not masked, for growing norms of "
        "the bias (at the right of each), each scaled to a peak of 1. First run only: another direction may move "
        "heads the other way.",
    )
    return Plate(pd.concat(tables, ignore_index=True), told, draw, (max(4.2, 2.7 * across), 2.8 * rows))


def _panel(ax: Axes, table: pd.DataFrame) -> None:
    norms = sorted(table["norm"].unique())
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(norms)))
    ax.axvline(0, c=PALE, lw=0.7, zorder=0)
    for place, norm in reversed(list(enumerate(norms))):
        mine, foot = table[table["norm"] == norm], place * STEP
        edges = np.append(mine["left"].to_numpy(np.float64), mine["right"].iloc[-1])
        heights = mine["height"].to_numpy(np.float64) + foot
        style = {"baseline": foot, "zorder": 3 - 0.1 * place}
        ax.stairs(heights, edges, fill=True, fc=(*colours[place][:3], 0.45), ec=colours[place], lw=0.8, **style)
        ax.text(1.01, foot + 0.04, f"N = {number(norm)}", transform=ax.get_yaxis_transform(), fontsize=6.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("score before the softmax")
