"""The sheet: a plate's figure with the caption under it, if it has one."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.style import RC

CAPTION_POINTS, LINE_INCHES, EDGE_INCHES = 7.5, 0.142, 0.08
HINTED = 0.97  # a line drawn in pixels runs a little wider than its outlines, by which it is measured


def compose(plate: Plate) -> Figure:
    """Draw the plate onto a new figure, above its caption. Nothing global changes."""
    width, height = plate.size
    with mpl.rc_context(RC):
        if not plate.caption:
            alone = Figure(figsize=plate.size, layout="constrained")
            plate.draw(alone)
            return alone
        lines = broken(plate.caption, HINTED * (width - 2 * EDGE_INCHES))
        below = LINE_INCHES * len(lines) + 0.1
        figure = Figure(figsize=(width, height + below), layout="constrained")
        top, foot = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, below]).ravel()
        plate.draw(top)
        foot.text(
            EDGE_INCHES / width,
            1.0,
            "\n".join(lines),
            va="top",
            fontsize=CAPTION_POINTS,
            linespacing=1.25,
            parse_math=False,
        )
    return figure


def broken(text: str, width: float) -> list[str]:
    """Break a caption into lines of at most so many inches, at spaces; words are measured in the caption's font.

    >>> broken("one two three", 0.7)
    ['one two', 'three']
    """
    font, measure = FontProperties(size=CAPTION_POINTS), TextToPath()

    def inches(words: str) -> float:
        return float(measure.get_text_width_height_descent(words, font, ismath=False)[0]) / 72

    lines, used, space = [""], 0.0, inches("a a") - 2 * inches("a")
    for word in text.split(" "):
        wide = inches(word)
        if lines[-1] and used + space + wide > width:
            lines, used = [*lines, word], wide
        else:
            lines[-1], used = f"{lines[-1]} {word}".lstrip(), used + (space if lines[-1] else 0) + wide
    return lines
