"""A number on the layer's number, one line a model, with a second axis where scales differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.note import UNDEFINED, empty
from theodolite.exhibits.style import Look, look
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks

FINAL_NORM = "final norm"
SCALES_DIFFER = 5.0
"""Models whose largest values are further apart than this do not share an axis."""


def draw_layers(
    ax: Axes,
    profiles: Sequence[pd.DataFrame],
    column: str,
    *,
    band: tuple[str, str] | None = None,
    right: Collection[int] = (),
    from_zero: bool = False,
) -> None:
    """Draw a column of each profile on the layer; `right` are drawn on a second axis, `band` as a pale strip.

    The state after a model's final norm is an open marker: it is no block's output.
    """
    other = _second(ax) if right else ax
    for number, profile in enumerate(profiles):
        axes, line = other if number in right else ax, look(number)
        layers, values = profile["layer"].to_numpy(int), profile[column].to_numpy(np.float64)
        style: dict[str, Any] = {"c": line.colour, "marker": line.marker, "ms": 3.2, "lw": 1.1}
        axes.plot(layers, values, ls=line.dash, **style)
        last = profile["layer_name"].eq(FINAL_NORM).to_numpy(bool)
        axes.plot(layers[last], values[last], ls="", mfc="white", **style, zorder=5)
        if band is not None:
            low, high = (profile[name].to_numpy(np.float64) for name in band)
            axes.fill_between(layers, low, high, color=line.colour, alpha=0.16, lw=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    ax.set_xlabel("layer")
    ax.margins(x=0.04)
    if band is not None:
        for axes, here in ((ax, False), (other, True)):
            _cut(axes, [profile for number, profile in enumerate(profiles) if (number in right) == here], column)
    if from_zero:  # on both axes, so that heights compare
        for axes in {ax, other}:
            axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
    short_ticks(ax, other)
    if not any(np.isfinite(profile[column].to_numpy(np.float64)).any() for profile in profiles):
        empty(ax, _undefined(profiles))


def right_axis(profiles: Sequence[pd.DataFrame], column: str) -> set[int]:
    """Return which profiles go to a second axis: those above the widest gap, where scales differ.

    >>> def at(value):
    ...     return pd.DataFrame({"q": [value / 2, value]})
    >>> right_axis([at(90), at(3000), at(110)], "q"), right_axis([at(90), at(110)], "q")
    ({1}, set())
    """
    peaks = [profile[column].max() for profile in profiles]
    known = sorted((float(peak), number) for number, peak in enumerate(peaks) if np.isfinite(peak) and peak > 0)
    gaps = [(high[0] / low[0], place) for place, (low, high) in enumerate(pairwise(known), 1)]
    widest, place = max(gaps, default=(0.0, 0))
    return {number for _, number in known[place:]} if widest > SCALES_DIFFER else set()


def draw_legend(
    figure: FigureBase, names: Sequence[str], right: Collection[int] = (), *, width: float = 7.0
) -> None:
    """Draw one legend above all panels of a figure of so many inches."""
    handles = [_handle(look(number)) for number in range(len(names))]
    told = [plain(name) + (" (right axis)" if number in right else "") for number, name in enumerate(names)]
    columns = legend_columns(told, width)
    figure.legend(handles, told, loc="outside upper center", ncols=columns, handlelength=3.2)


def legend_inches(names: Sequence[str], width: float) -> float:
    """Return how much higher a figure of so many inches must be for its legend."""
    return 0.16 * -(-len(names) // legend_columns(names, width))


def legend_columns(names: Sequence[str], width: float) -> int:
    """Return how many names stand beside each other above a figure of so many inches."""
    longest = max(map(len, names), default=1)
    return max(1, min(len(names), int(15 * width / (longest + 9))))


def has_final_norm(profiles: Sequence[pd.DataFrame]) -> bool:
    """Say whether any profile ends with the state after a final norm."""
    return any(profile["layer_name"].eq(FINAL_NORM).any() for profile in profiles)


def _undefined(profiles: Sequence[pd.DataFrame]) -> str:
    """Say that nothing is defined, and why where the profiles give one reason."""
    given = {reason for profile in profiles if "reason" in profile for reason in profile["reason"].dropna()}
    return f"{UNDEFINED}: {given.pop()}" if len(given) == 1 else UNDEFINED


def _handle(line: Look) -> Line2D:
    return Line2D([], [], c=line.colour, marker=line.marker, ls=line.dash, ms=3.5, lw=1.1)


def _cut(ax: Axes, profiles: Sequence[pd.DataFrame], column: str) -> None:
    """Keep a strip that is much wider than all lines together from flattening them."""
    values = np.concatenate([[np.nan], *(profile[column].to_numpy(np.float64) for profile in profiles)])
    if np.isfinite(values).any():
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        reach = (high - low) or abs(high) or 1.0
        bottom, top = ax.get_ylim()
        ax.set_ylim(max(bottom, low - reach), min(top, high + reach))


def _second(ax: Axes) -> Axes:
    other = ax.twinx()
    other.spines["right"].set_visible(True)
    other.margins(x=0.04)
    return other
