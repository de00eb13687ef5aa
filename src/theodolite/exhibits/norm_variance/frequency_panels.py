"""fig7: Q, M and V on log10 n in a middle layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.few_units import among, check_points
from theodolite.exhibits.norm_variance.panels import FITTED, LOG_N, WIDE, M, Q, V, fit_caption, named
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.exhibits.scatter import draw_scatter
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fit
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed, labels, middle_layer

COLUMNS = {"q": Q, "m": M, "v": V}


@exhibit("norm-variance/fig7", title="Q, M and V on log10 n in a middle layer", needs=[UNITS], options=FITTED)
def fig7(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw Q(X_t), M(X_t) and V(X_t) on log10 n_t with lines, a row a model."""
    chosen = choice.filtered()
    layers = [one_layer(chosen, middle_layer(survey)) for survey in surveys]
    tables = [points(survey, layer, chosen) for survey, layer in zip(surveys, layers, strict=True)]
    check_points(surveys, chosen, tables)
    lines = [fit(table, [f"{column}_on_log10_n" for column in COLUMNS]) for table in tables]
    names = labels(surveys)

    def draw(figure: FigureBase) -> None:
        rows = figure.subplots(len(surveys), len(COLUMNS), squeeze=False, sharex="row")
        for number, (name, layer) in enumerate(zip(names, layers, strict=True)):
            for ax, (column, label) in zip(rows[number], COLUMNS.items(), strict=True):
                line = lines[number][f"{column}_on_log10_n"]
                draw_scatter(ax, tables[number], "log10_n", column, line, among=among(chosen))
                ax.set_ylabel(label)
                ax.set_xlabel(LOG_N)
            rows[number][1].set_title(f"{plain(name)}, layer {layer}\n{rows[number][1].get_title()}", fontsize=7)

    data = pd.concat(
        [named(t.assign(layer=layer), n) for n, layer, t in zip(names, layers, tables, strict=True)],
        ignore_index=True,
    )
    told = fit_caption(surveys, chosen, "Q(Xₜ), M(Xₜ) and V(Xₜ) on log₁₀ n, one point a unit.")
    return Plate(data, f"{told} {captions.intervals()}", draw, (WIDE, 2.35 * len(surveys)))
