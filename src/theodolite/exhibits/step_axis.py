"""The axis of training steps: linear or logarithmic, with a place for step 0; and a colour for each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap, to_hex
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator, NullLocator

WIDE = 30.0
"""Steps whose largest is so many times the smallest are on a logarithmic axis, unless told otherwise."""
MAP, LIGHTEST = "viridis", 0.92  # the yellow end is lost on white
LABELS = 12


def scale_of(steps: Sequence[int], asked: str | None) -> str:
    """Return "linear" or "log".

    >>> scale_of([0, 1, 10, 100], None), scale_of([100, 200, 300], None), scale_of([1, 100], "linear")
    ('log', 'linear', 'linear')
    """
    positive = [step for step in steps if step > 0]
    if asked == "log" and not positive:
        return "linear"
    if asked is not None:
        return asked
    return "log" if len(positive) > 1 and max(positive) >= WIDE * min(positive) else "linear"


def step_axis(ax: Axes, steps: Sequence[int], scale: str) -> None:
    """Set the axis; on a logarithmic one step 0 stands a decade before the first other."""
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


def step_colours(count: int) -> list[str]:
    """Return a colour for each step, dark to light, evenly however far apart the steps are.

    >>> len(set(step_colours(12)))
    12
    """
    return [to_hex(colormaps[MAP](place)) for place in np.linspace(0.0, LIGHTEST, max(count, 1))]


def step_bar(figure: FigureBase, ax: Axes, steps: Sequence[int]) -> None:
    """Draw beside a panel which colour is which step; of many steps a few are named."""
    edges = np.arange(len(steps) + 1) - 0.5
    colours = ScalarMappable(BoundaryNorm(edges, len(steps)), ListedColormap(step_colours(len(steps))))
    bar = figure.colorbar(colours, ax=ax, aspect=22, pad=0.02)
    count = min(len(steps), LABELS)
    named = sorted({round(place) for place in np.linspace(0, len(steps) - 1, count)})
    bar.set_ticks(named, labels=[f"{steps[place]:,}" for place in named])
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    bar.set_label("training step")
