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

LOG_FROM = 30.0
"""By default the axis is logarithmic if the largest step exceeds the smallest by this factor."""
MAP, LIGHTEST = "viridis", 0.92  # the yellow end is hard to see on white
LABELS = 12


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
    """Format the axis of steps. On a logarithmic axis, step 0 is placed before the first positive step."""
    if scale == "log":
        first = min(step for step in steps if step > 0)
        if min(steps) == 0:
            ax.set_xscale("symlog", linthresh=first, linscale=0.6)
            ax.xaxis.set_minor_locator(NullLocator())
        else:
            ax.set_xscale("log")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5, min_n_ticks=1))
    ax.set_xlabel("training step")
    ax.margins(x=0.04)


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
