"""How panels are laid out: one a model, in rows; what all scatter figures share."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.layer_lines import has_final_norm, legend_inches
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.points import special_units
from theodolite.studies.surveyed import Surveyed

FITTED = ("layer", "population", "variant", "filter", "specials")
Q, M, V = "$Q(X_t)$", "$M(X_t)$", "$V(X_t)$"
LOG_N = r"$\log_{10} n_t$"
HALF, WIDE = 3.4, 7.0  # inches: a column and the page


def grid_of(count: int, columns: int = 3) -> tuple[int, int]:
    """Return rows and columns for so many panels.

    >>> grid_of(1), grid_of(2), grid_of(4), grid_of(7)
    ((1, 1), (1, 2), (2, 2), (3, 3))
    """
    across = 2 if count == 4 else min(count, columns)
    return -(-count // across), across


def panels(figure: FigureBase, count: int, columns: int = 3) -> list[Axes]:
    """Return axes for so many panels, row by row; those left over are taken away."""
    rows, across = grid_of(count, columns)
    axes: list[Axes] = list(figure.subplots(rows, across, squeeze=False).ravel())
    for spare in axes[count:]:
        spare.remove()
    return axes[:count]


def panels_size(count: int, *, height: float = 2.1, legend: float = 0.0) -> tuple[float, float]:
    """Return inches for so many panels: a column for one, the page for more."""
    rows, across = grid_of(count)
    return (HALF if across == 1 else WIDE), rows * height + legend


def by_layer_size(names: Sequence[str], width: float = WIDE, height: float = 2.2) -> tuple[float, float]:
    """Return inches for panels by layer under a legend."""
    return width, height + legend_inches(names, width)


def fit_caption(surveys: Sequence[Surveyed], choice: Choice, first: str, positions: str = "") -> str:
    """Return the caption of a figure of points and lines; `positions` tells those that count, else the choice."""
    pale = "" if (choice.filter, choice.variant) == ("all", "biased") else "Pale: units not in the fit."
    marked = "Diamonds: special units left out." if _marked(surveys, choice) else ""
    return caption(
        first,
        captions.corpora(surveys),
        captions.units(surveys),
        positions or caption(captions.population(choice), captions.massive(surveys, choice)),
        captions.variant(choice),
        captions.in_fits(surveys, choice),
        pale,
        marked,
    )


def named(table: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return the table with the survey's label in front, for the data that a figure writes."""
    rest = table.drop(columns="survey", errors="ignore")
    rest.insert(0, "survey", label)
    return rest


def _marked(surveys: Sequence[Surveyed], choice: Choice) -> bool:
    return any(special_units(survey) and not choice.kept(survey) for survey in surveys)


def layer_caption(
    surveys: Sequence[Surveyed], choice: Choice, tables: Sequence[pd.DataFrame], first: str, *rest: str
) -> str:
    """Return the caption of a figure by layer."""
    final = "Open marker: the state after the final norm." if has_final_norm(tables) else ""
    return caption(
        first,
        captions.corpora(surveys),
        captions.units(surveys),
        captions.population(choice),
        captions.massive(surveys, choice),
        captions.variant(choice),
        *rest,
        final,
    )
