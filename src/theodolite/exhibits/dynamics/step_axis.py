"""The axis of training steps, and a colour for each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap, to_hex
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator, NullLocator

from theodolite.text import format_short

LOG_FROM = 30.0
"""By default the axis is logarithmic if the largest step exceeds the smallest by this factor."""
MAP, LIGHTEST = "viridis", 0.92  # the yellow end is hard to see on white
LABELS = 12
ZERO_DECADES = 0.6  # how far step 0 is before the first positive step on a logarithmic axis
CLOSEST_TICKS = 0.08  # of the length of the axis


def choose_scale(steps: Sequence[int], requested: str | None) -> str:
    """Return the scale of the axis of steps, "linear" or "log".

    >>> choose_scale([0, 1, 10, 100], None), choose_scale([100, 200, 300], None), choose_scale([1, 100], "linear")
    ('log', 'linear', 'linear')
    """
    positive = [step for step in steps if step > 0]
    if requested == "log" and not positive:
        return "linear"
    if requested is not None:
        return requested
    return "log" if len(positive) > 1 and max(positive) >= LOG_FROM * min(positive) else "linear"


def format_step_axis(ax: Axes, steps: Sequence[int], scale: str) -> None:
    """Format the axis of steps, with ticks at its ends. On a logarithmic axis, 0 is before the first step."""
    if scale == "log":
        first = min(step for step in steps if step > 0)
        if min(steps) == 0:
            ax.set_xscale("symlog", linthresh=first, linscale=ZERO_DECADES)
        else:
            ax.set_xscale("log")
    ticks = choose_step_ticks(steps, scale)
    short = [format_short(tick, 3) for tick in ticks]
    ax.set_xticks(ticks, short if len(set(short)) == len(ticks) else [f"{tick:,}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("training step")
    ax.margins(x=0.04)


def choose_step_ticks(steps: Sequence[int], scale: str) -> list[int]:
    """Return the first step, the last step, and round ones between that are not too close to these or each other.

    >>> choose_step_ticks([0, 1, 512, 143_000], "log"), choose_step_ticks([100, 200, 980], "linear")
    ([0, 1, 10, 100, 1000, 10000, 143000], [100, 200, 400, 600, 800, 980])
    """
    low, high = min(steps), max(steps)
    first = min((step for step in steps if step > 0), default=1)

    def place(step: float) -> float:
        if scale == "linear":
            return float(step)
        return float(np.log10(step / first)) if step > 0 else -ZERO_DECADES

    if scale == "log":
        rounds = [first, *(10**power for power in range(len(str(high))) if 10**power > first)]
    else:
        rounds = [int(tick) for tick in MaxNLocator(integer=True, nbins=5, min_n_ticks=1).tick_values(low, high)]
    gap, kept = CLOSEST_TICKS * (place(high) - place(low)), [low]
    for tick in rounds:
        if place(kept[-1]) + gap <= place(tick) <= place(high) - gap:
            kept.append(tick)
    return [*kept, high] if high > low else kept


def choose_step_colours(count: int) -> list[str]:
    """Return a colour for each step from dark to light, evenly spaced regardless of the distance between steps.

    >>> len(set(choose_step_colours(12)))
    12
    """
    return [to_hex(colormaps[MAP](place)) for place in np.linspace(0.0, LIGHTEST, max(count, 1))]


def draw_step_colorbar(figure: FigureBase, ax: Axes, steps: Sequence[int]) -> None:
    """Draw a colour bar of the steps beside a panel, with labels for at most twelve of them."""
    edges = np.arange(len(steps) + 1) - 0.5
    colours = ScalarMappable(BoundaryNorm(edges, len(steps)), ListedColormap(choose_step_colours(len(steps))))
    bar = figure.colorbar(colours, ax=ax, aspect=22, pad=0.02)
    count = min(len(steps), LABELS)
    named = sorted({round(place) for place in np.linspace(0, len(steps) - 1, count)})
    bar.set_ticks(named, labels=[f"{steps[place]:,}" for place in named])
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    bar.set_label("training step")
