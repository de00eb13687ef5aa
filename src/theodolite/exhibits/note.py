"""Notes in panels that have nothing to show, or not all: why, in grey, in a line or two."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from matplotlib.axes import Axes

from theodolite.exhibits.style import GREY
from theodolite.studies.undefined import UNDEFINED as UNDEFINED

WIDE = 26  # characters a line; the narrowest panels hold no more


def note(ax: Axes, words: str, *, height: float = 0.5) -> None:
    """Write why a panel shows nothing, or no line, in its middle or at another height."""
    behind = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
    told = fill(typeset(words), WIDE, break_long_words=False)
    place: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, height, told, fontsize=7, c=GREY, bbox=behind, zorder=1.5, **place)  # points stand above it


def empty(ax: Axes, why: str) -> None:
    """Write why a panel shows nothing; ticks that no other panel shares would measure nothing, and go."""
    note(ax, why)
    for axis, shared in ((ax.xaxis, ax.get_shared_x_axes()), (ax.yaxis, ax.get_shared_y_axes())):
        if len(shared.get_siblings(ax)) == 1:
            axis.set_tick_params(which="both", length=0, labelbottom=False, labelleft=False)


def typeset(words: str) -> str:
    """Return a reason as figures and captions print it, a relation on one line.

    >>> typeset("fewer than three units with 1 <= log10 n <= 5").replace(chr(160), " ")
    'fewer than three units with 1 ≤ log₁₀ n ≤ 5'
    """
    return words.replace("1 <= log10 n <= 5", "1 ≤ log₁₀ n ≤ 5".replace(" ", "\N{NO-BREAK SPACE}"))
