"""Colours, markers, dashes and matplotlib settings of the exhibits, safe for colour-blind readers."""

from __future__ import annotations

from typing import Any, NamedTuple

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""The palette of Okabe and Ito without yellow, which is hard to see in print."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (7, 1.5)))
GREY, PALE = "#767676", "#B8B8B8"

RC: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.hashsalt": "theodolite",
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}


class LineStyle(NamedTuple):
    """Colour, marker and dash of a line."""

    colour: str
    marker: str
    dash: Any


def get_line_style(number: int) -> LineStyle:
    """Return the style of line `number`. The first 280 styles all differ.

    >>> get_line_style(0) == get_line_style(1), get_line_style(0) == get_line_style(280)
    (False, True)
    """
    return LineStyle(COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)])
