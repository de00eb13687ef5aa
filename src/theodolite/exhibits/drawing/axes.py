"""Labels, tick labels and notes of axes."""

from __future__ import annotations

import unicodedata
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from theodolite.exhibits.drawing.style import GREY
from theodolite.text import format_short

LARGE = 1e4
NOTE_CHARACTERS = 26  # per line, so that notes fit into the narrowest panels
LONGEST_LABEL = 48


def shorten_ticks(*axes: Axes) -> None:
    """Shorten the tick labels of axes that reach 10,000. Call it after the limits are set."""
    for ax in axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            if max(map(abs, limits)) >= LARGE:
                axis.set_major_formatter(FuncFormatter(lambda value, position: format_short(value)))


def write_note(ax: Axes, words: str, *, height: float = 0.5) -> None:
    """Write a note in a panel, for example why it shows nothing. `height` is a fraction of the panel."""
    behind = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
    text = fill(format_reason(words), NOTE_CHARACTERS, break_long_words=False)
    place: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, height, text, fontsize=7, c=GREY, bbox=behind, zorder=1.5, **place)  # below the points


def mark_empty(ax: Axes, reason: str) -> None:
    """Write why a panel shows nothing, and remove the ticks that it does not share with another panel."""
    write_note(ax, reason)
    for axis, shared in ((ax.xaxis, ax.get_shared_x_axes()), (ax.yaxis, ax.get_shared_y_axes())):
        if len(shared.get_siblings(ax)) == 1:
            axis.set_tick_params(which="both", length=0, labelbottom=False, labelleft=False)


def format_reason(words: str) -> str:
    """Return a reason with the symbols of figures and captions; an inequality is not broken over lines.

    >>> format_reason("fewer than three units with 1 <= log10 n <= 5").replace(chr(160), " ")
    'fewer than three units with 1 ≤ log₁₀ n ≤ 5'
    """
    return words.replace("1 <= log10 n <= 5", "1 ≤ log₁₀ n ≤ 5".replace(" ", "\N{NO-BREAK SPACE}"))


def clean_label(name: object, longest: int = LONGEST_LABEL) -> str:
    """Return a name that matplotlib draws literally: no mathematics, no control characters, not too long.

    >>> print(clean_label("cost in $"), clean_label("a" + chr(0) + "b"), clean_label("someone/large-model-7b", 12))
    cost in \\$ a?b someon…el-7b
    """
    text = "".join("?" if unicodedata.category(char).startswith("C") else char for char in str(name))
    if len(text) > longest:  # both ends are more informative than the middle
        text = f"{text[: longest // 2]}…{text[len(text) - (longest - longest // 2 - 1) :]}"
    return text.replace("$", r"\$")
