"""fig8: V on M, with the chosen tokens of fig1 marked and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.name_places import draw_names, inside
from theodolite.exhibits.needs import TOKEN_SETS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.few_units import among
from theodolite.exhibits.norm_variance.panels import FITTED, WIDE, M, V, fit_caption, named
from theodolite.exhibits.norm_variance.token_sets import chosen_by, counted
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.scatter import draw_scatter
from theodolite.exhibits.style import BLACK, ORANGE
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.chosen_sets import ChosenSets, sets_of
from theodolite.studies.norm_variance.fits import fit
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed, labels

HEIGHT = 4.0
AXES = (6.2, 3.2)  # inches of a panel's axes, about


@exhibit(
    "norm-variance/fig8",
    title="V on M with the chosen tokens named",
    needs=[UNITS, TOKEN_SETS],
    options=FITTED[1:],
    reads=("layers", "tokens", "units", "token_sets"),
)
def fig8(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw V(X_t) on M(X_t) at the layer of the token sets, with line, and name the chosen tokens.

    The positions are those of the sets, unless others are asked for.
    """
    chosen, names = choice.filtered(), labels(surveys)
    sets = [sets_of(survey) for survey in surveys]
    theirs = chosen.population == "all" and any(found.population != "all" for found in sets)
    populations = [found.population if theirs else chosen.population for found in sets]
    tables = [
        _marked(points(survey, found.layer, replace(chosen, population=population)), found)
        for survey, found, population in zip(surveys, sets, populations, strict=True)
    ]
    lines = [fit(table, ["v_on_m"])["v_on_m"] for table in tables]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(sets), 1, squeeze=False).ravel()
        for ax, name, found, table, line in zip(axes, names, sets, tables, lines, strict=True):
            draw_scatter(ax, table, "m", "v", line, among=among(chosen))
            _draw_marked(ax, table[table["chosen"]])
            ax.set_title(f"{plain(name)}, layer {found.layer}\n{ax.get_title()}", fontsize=7.5)
            ax.set_xlabel(M)
            ax.set_ylabel(V)

    data = pd.concat(
        [
            named(table.assign(layer=found.layer, population=population), name)
            for name, found, table, population in zip(names, sets, tables, populations, strict=True)
        ],
        ignore_index=True,
    )
    told = fit_caption(
        surveys,
        chosen,
        "V(Xₜ) on M(Xₜ), with the least-squares line; named: the tokens of fig1.",
        counted(surveys, sets) if theirs else "",
    )
    told = f"{told} {chosen_by(sets)} {captions.intervals()}".replace("  ", " ")
    return Plate(data, told, draw, (WIDE, HEIGHT * len(sets)))


def _marked(table: pd.DataFrame, found: ChosenSets) -> pd.DataFrame:
    names = dict(zip(found.chosen["unit"], found.chosen["name"], strict=True))
    return table.assign(chosen=table["unit"].isin(list(names)).to_numpy(bool), name=table["unit"].map(names))


def _draw_marked(ax: Axes, marked: pd.DataFrame) -> None:
    marked = marked[inside(ax, marked, "m", "v")]  # NaN, of an unbiased V at n = 1, lies nowhere
    at = marked[["m", "v"]].to_numpy(np.float64)
    ax.scatter(at[:, 0], at[:, 1], s=18, c=ORANGE, edgecolors=BLACK, linewidths=0.6, zorder=6)
    if len(at):
        draw_names(ax, marked["name"].tolist(), at, AXES)
