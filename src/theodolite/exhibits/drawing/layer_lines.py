"""Line plots by layer or by depth: one line per model, an encoder joined with its decoder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.drawing.axes import mark_empty, shorten_ticks
from theodolite.exhibits.drawing.style import LineStyle, get_line_style
from theodolite.studies.survey_data import UNDEFINED_EVERYWHERE

FINAL_NORM = "final norm"
AXIS_LABELS = {
    "layer": "layer",
    "depth": "depth (last block: 1)",
    "joined_depth": "depth (last block: 1)",
}
SCALES_DIFFER = 5.0
"""Models get a second axis if the largest values of two of them differ by more than this factor."""


def draw_profiles(
    ax: Axes,
    tables: Sequence[pd.DataFrame],
    column: str,
    *,
    right: Collection[int] = (),
    from_zero: bool = False,
) -> None:
    """Draw a column of each table by layer. The tables whose numbers are in `right` use a second axis."""
    other = _add_right_axis(ax) if right else ax
    for number, table in enumerate(tables):
        draw_line(other if number in right else ax, table, column, get_line_style(number))
    format_layer_axis(ax, tables, column)
    for axes, is_right in ((ax, False), (other, True)):
        _limit_strips(
            axes, [table for number, table in enumerate(tables) if (number in right) == is_right], column
        )
    if from_zero:  # on both axes, so that heights can be compared
        for axes in {ax, other}:
            top = axes.get_ylim()[1]
            axes.set_ylim(-0.03 * top, 1.03 * top)
    shorten_ticks(ax, other)


def draw_line(
    ax: Axes, table: pd.DataFrame, column: str, style: LineStyle, *, x: str = "layer", **overrides: Any
) -> None:
    """Draw a column of one table, with a strip where the table has `COLUMN_low` and `COLUMN_high`.

    A thin line joins an encoder with its decoder. The state after a final norm gets an open marker, because it is
    not the output of a block.
    """
    line: dict[str, Any] = {"c": style.colour, "marker": style.marker, "ls": style.dash, "ms": 3.2, "lw": 1.1}
    line |= overrides
    stacks = [rows for _, rows in table.groupby("stack", sort=False)] if "stack" in table else [table]
    for before, after in pairwise(stacks):
        ends = pd.concat([before.tail(1), after.head(1)])
        ax.plot(*_points(ends, x, column), c=line["c"], ls="-", lw=0.5, alpha=0.7)
    for rows in stacks:
        positions, values = _points(rows, x, column)
        ax.plot(positions, values, **line)
        if "layer_name" in rows:
            last = rows["layer_name"].str.endswith(FINAL_NORM).to_numpy(bool)
            ax.plot(positions[last], values[last], **line | {"ls": "", "mfc": "white"}, zorder=5)
        if f"{column}_low" in rows:
            low, high = (rows[f"{column}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
            ax.fill_between(positions, low, high, color=line["c"], alpha=0.16, lw=0)


def format_layer_axis(ax: Axes, tables: Sequence[pd.DataFrame], column: str, x: str = "layer") -> None:
    """Label the axis of layers. If the column is undefined at every layer, write so in the panel."""
    if x == "layer":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    ax.set_xlabel(AXIS_LABELS[x])
    ax.margins(x=0.04)
    if not any(np.isfinite(table[column].to_numpy(np.float64)).any() for table in tables):
        mark_empty(ax, _explain_undefined(tables))


def choose_right_axis(tables: Sequence[pd.DataFrame], column: str) -> set[int]:
    """Return the numbers of the tables that need a second axis: those above the widest gap, where scales differ.

    >>> def make_table(value):
    ...     return pd.DataFrame({"q": [value / 2, value]})
    >>> choose_right_axis([make_table(90), make_table(3000), make_table(110)], "q")
    {1}
    >>> choose_right_axis([make_table(90), make_table(110)], "q")
    set()
    """
    peaks = [table[column].max() for table in tables]
    known = sorted((float(peak), number) for number, peak in enumerate(peaks) if np.isfinite(peak) and peak > 0)
    gaps = [(high[0] / low[0], place) for place, (low, high) in enumerate(pairwise(known), 1)]
    widest, place = max(gaps, default=(0.0, 0))
    return {number for _, number in known[place:]} if widest > SCALES_DIFFER else set()


def has_final_norm(tables: Sequence[pd.DataFrame]) -> bool:
    """Return whether any table ends with the state after a final norm."""
    return any(table["layer_name"].str.endswith(FINAL_NORM).any() for table in tables)


def has_stacks(tables: Sequence[pd.DataFrame]) -> bool:
    """Return whether any table has both an encoder and a decoder."""
    return any(table["stack"].nunique() > 1 for table in tables)


def has_errors(tables: Sequence[pd.DataFrame], column: str) -> bool:
    """Return whether any layer has an error for this column."""
    return any(table[f"{column}_low"].notna().any() for table in tables)


def _points(table: pd.DataFrame, x: str, column: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return table[x].to_numpy(np.float64), table[column].to_numpy(np.float64)


def _explain_undefined(tables: Sequence[pd.DataFrame]) -> str:
    """Return that nothing is defined, with the reason if the tables give exactly one."""
    reasons = {reason for table in tables if "reason" in table for reason in table["reason"].dropna()}
    return f"{UNDEFINED_EVERYWHERE}: {reasons.pop()}" if len(reasons) == 1 else UNDEFINED_EVERYWHERE


def _limit_strips(ax: Axes, tables: Sequence[pd.DataFrame], column: str) -> None:
    """Limit the axis so that a strip much wider than the range of the lines does not flatten them."""
    if not any(f"{column}_low" in table for table in tables):
        return
    values = np.concatenate([[np.nan], *(table[column].to_numpy(np.float64) for table in tables)])
    if np.isfinite(values).any():
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        reach = (high - low) or abs(high) or 1.0
        bottom, top = ax.get_ylim()
        ax.set_ylim(max(bottom, low - reach), min(top, high + reach))


def _add_right_axis(ax: Axes) -> Axes:
    other = ax.twinx()
    other.spines["right"].set_visible(True)
    other.margins(x=0.04)
    return other
