"""Tables of text drawn as figures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.exhibit import Plate

ROW_INCHES, CHARACTER_INCHES = 0.19, 0.075


def make_table_plate(data: pd.DataFrame, shown: pd.DataFrame, caption: str) -> Plate:
    """Return the plate of a table; `shown` is the table formatted for readers."""
    return Plate(data, caption, partial(draw_table, shown=shown), table_size(shown), shown)


def table_size(shown: pd.DataFrame) -> tuple[float, float]:
    """Return the size in inches that a table needs."""
    return max(3.5, CHARACTER_INCHES * sum(_widths(shown)) + 0.2), ROW_INCHES * (
        len(shown) + _head_lines(shown)
    ) + 0.25


def draw_table(figure: FigureBase, shown: pd.DataFrame) -> None:
    """Draw a table of text that fills the figure."""
    ax = figure.subplots()
    ax.set_axis_off()
    fill_table(ax, shown)


def fill_table(ax: Axes, shown: pd.DataFrame) -> None:
    """Draw a table on axes: text aligned to the left, numbers to the right. Headings can have several lines."""
    widths, head = _widths(shown), _head_lines(shown)
    rows = len(shown)
    ax.set_xlim(0, sum(widths))
    ax.set_ylim(rows + 0.15, -head - 0.15)
    for height, weight in ((-head - 0.1, 1.2), (-0.05, 0.6), (rows + 0.05, 1.2)):
        ax.plot([0, sum(widths)], [height, height], c="black", lw=weight, clip_on=False)
    right = 0
    for number, (name, width) in enumerate(zip(shown.columns, widths, strict=True)):
        left, right = right, right + width
        numeric = number > 0 and looks_numeric(shown.iloc[:, number])
        at, side = (right - 1.25, "right") if numeric else (left + 0.75, "left")
        for above, line in enumerate(reversed(str(name).split("\n"))):
            ax.text(at, -0.35 - above, clean_label(line), ha=side, va="baseline", fontsize=8, fontweight="bold")
        for row, text in enumerate(shown.iloc[:, number]):
            ax.text(at, row + 0.45, clean_label(text), ha=side, va="center", fontsize=8)


def looks_numeric(texts: Iterable[object]) -> bool:
    """Return whether a column of a formatted table holds only numbers.

    >>> looks_numeric(["1,234", "22.7M", "[−0.7, 1×10⁶]", "0.5 ± 0.1"]), looks_numeric(["1", "all"])
    (True, False)
    """
    return all(re.fullmatch(r"[-\d\s,.−–×⁻⁰¹²³⁴-⁹\[\]kMB±]*", str(text)) for text in texts)


def _head_lines(shown: pd.DataFrame) -> int:
    return max((str(name).count("\n") + 1 for name in shown.columns), default=1)


def _widths(shown: pd.DataFrame) -> list[int]:
    """Return the widths of the columns in characters, with the gap between columns."""
    columns = [
        [*str(name).split("\n"), *map(str, shown.iloc[:, number])] for number, name in enumerate(shown.columns)
    ]
    return [max(map(len, texts)) + 3 for texts in columns]
