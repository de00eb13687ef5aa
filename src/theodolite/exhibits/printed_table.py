"""A table as a picture, ruled as books rule theirs."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.text import looks_numeric, plain

ROW_INCHES, CHARACTER_INCHES = 0.19, 0.075


def table_size(shown: pd.DataFrame) -> tuple[float, float]:
    """Return the size in inches that a table needs."""
    return max(3.5, CHARACTER_INCHES * sum(_widths(shown)) + 0.2), ROW_INCHES * (len(shown) + 1) + 0.25


def draw_table(figure: FigureBase, shown: pd.DataFrame) -> None:
    """Draw a table of text over the whole figure."""
    ax = figure.subplots()
    ax.set_axis_off()
    fill_table(ax, shown)


def fill_table(ax: Axes, shown: pd.DataFrame) -> None:
    """Draw a table onto axes: words from the left, numbers from the right."""
    widths = _widths(shown)
    rows = len(shown)
    ax.set_xlim(0, sum(widths))
    ax.set_ylim(rows + 0.15, -1.15)
    for height, weight in ((-1.1, 1.2), (-0.05, 0.6), (rows + 0.05, 1.2)):
        ax.plot([0, sum(widths)], [height, height], c="black", lw=weight, clip_on=False)
    right = 0
    for number, (name, width) in enumerate(zip(shown.columns, widths, strict=True)):
        left, right = right, right + width
        numeric = number > 0 and looks_numeric(shown.iloc[:, number])
        at, side = (right - 0.5, "right") if numeric else (left + 0.5, "left")
        for row, text in enumerate([name, *shown.iloc[:, number]]):
            face = "bold" if row == 0 else "normal"
            ax.text(at, row - 0.55, plain(text), ha=side, va="center", fontsize=8, fontweight=face)


def _widths(shown: pd.DataFrame) -> list[int]:
    """Return the columns' widths in characters, a gap included."""
    columns = [[str(name), *map(str, shown.iloc[:, number])] for number, name in enumerate(shown.columns)]
    return [max(map(len, texts)) + 3 for texts in columns]
