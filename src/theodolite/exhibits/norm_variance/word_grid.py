"""fig22: words as means of their tokens, coloured by how many tokens they have (appendix J)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import WORDS
from theodolite.exhibits.norm_variance.layer_grid import GRID, RAW, layer_grid
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.scatter import draw_line, frame, tell_outside, told
from theodolite.exhibits.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed, labels

LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"), (VERMILLION, "v"))
"""For 1, 2, 3, 4 and 5 or more tokens."""


@exhibit(
    "norm-variance/fig22",
    title="The word-level artefact: grid of layers, coloured by tokens a word",
    needs=[WORDS],
    options=GRID,
)
def fig22(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw Q, M and V of words on log10 n, and V on M, coloured by the tokens a word has."""
    first = (
        "Q(X), M(X), V(X) of words on log₁₀ n, and V(X) on M(X), from input to output; a word is the mean of "
        f"its tokens. {text_read(surveys)}"
    )
    plate = layer_grid(surveys, choice.filtered(), RAW, draw_words, first)

    def draw(figure: FigureBase) -> None:
        plate.draw(figure)
        handles = [Line2D([], [], ls="", marker=marker, c=colour, ms=4) for colour, marker in LOOKS]
        tokens = [*map(str, range(1, len(LOOKS))), f"{len(LOOKS)} or more"]
        figure.legend(handles, tokens, title="tokens a word", loc="outside upper center", ncols=len(LOOKS))

    caption = plate.caption.replace("Pale: units", "Faint: words").replace(
        " Diamonds: special units left out.", ""
    )
    return Plate(plate.data, caption, draw, (plate.size[0], plate.size[1] + 0.4))


def text_read(surveys: Sequence[Surveyed]) -> str:
    """Say what text the models read: whole, or the paper's cleaned words."""
    whole = "The text is read whole, punctuation too, where the paper read cleaned words"
    clean = "As in the paper the model reads cleaned words: runs of 2 to 15 letters, lowercased, and nothing else"
    told = {
        name: bool(survey.facts.get("settings", {}).get("clean_words"))
        for name, survey in zip(labels(surveys), surveys, strict=True)
    }
    if len(set(told.values())) < 2:
        return f"{clean if any(told.values()) else whole}."
    of_whole, of_clean = (", ".join(name for name in told if told[name] is wanted) for wanted in (False, True))
    return f"{whole} ({of_whole}). {clean} ({of_clean})."


def draw_words(
    ax: Axes,
    points: pd.DataFrame,
    x: str,
    y: str,
    fit: Mapping[str, Any],
    *,
    size: float,
    interval: bool,
    among: str = "",
) -> None:
    """Draw y on x of all words, a colour and a marker for each number of tokens, and the line."""
    tokens = np.clip(points["tokens_per_unit"].fillna(1).round().to_numpy(int), 1, len(LOOKS))
    used = points["used"].to_numpy(bool)
    for number, (colour, marker) in enumerate(LOOKS, 1):
        for where, alpha in ((~used, 0.25), (used, 0.8)):
            group = points[where & (tokens == number)]
            ax.scatter(
                group[x].to_numpy(),
                group[y].to_numpy(),
                s=size * 1.4,
                c=colour,
                marker=marker,
                alpha=alpha,
                linewidths=0,
                rasterized=len(points) > 3000,
            )
    draw_line(ax, points, x, fit, among)
    tell_outside(ax, frame(ax, points, x, y))
    short_ticks(ax)
    ax.set_title(told(fit, interval=interval))
