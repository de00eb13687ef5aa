"""Ticks for large numbers: 20k and 1.5M stand at the tick, not a power of ten in a corner."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

LARGE = 1e4
UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def short(value: float, position: int | None = None) -> str:
    """Return a tick's label.

    >>> [short(value) for value in (0.0, 250.0, -20_000.0, 1.5e6, 1e8)]
    ['0', '250', '−20k', '1.5M', '100M']
    """
    for unit, name in UNITS:
        if abs(value) >= unit:
            return f"{value / unit:.4g}{name}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def short_ticks(*axes: Axes) -> None:
    """Label the ticks of axes shortly where they reach 10,000; call it when the limits are set."""
    for ax in axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            if max(map(abs, limits)) >= LARGE:
                axis.set_major_formatter(FuncFormatter(short))
