"""How the exhibits look: colours that the colour-blind can tell apart, each with its own marker and dash."""

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
"""Okabe and Ito's palette, without the yellow that print loses."""
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


class Look(NamedTuple):
    """How one of many lines is drawn."""

    colour: str
    marker: str
    dash: Any


def look(number: int) -> Look:
    """Return the look of line `number`; 280 differ before one comes back.

    >>> look(0) == look(1), look(0) == look(280)
    (False, True)
    """
    return Look(COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)])
