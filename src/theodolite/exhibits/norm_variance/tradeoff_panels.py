"""fig2: V on M in a middle layer, a panel a model."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.few_units import among, check_points
from theodolite.exhibits.norm_variance.panels import FITTED, M, V, fit_caption, named, panels, panels_size
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.exhibits.scatter import draw_scatter
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fit
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed, labels, middle_layer


@exhibit("norm-variance/fig2", title="V on M in a middle layer, a panel a model", needs=[UNITS], options=FITTED)
def fig2(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw V(X_t) on M(X_t) for one layer of each model, with line, slope and R2."""
    chosen = choice.filtered()
    layers = [one_layer(chosen, middle_layer(survey)) for survey in surveys]
    tables = [points(survey, layer, chosen) for survey, layer in zip(surveys, layers, strict=True)]
    check_points(surveys, chosen, tables)
    lines = [fit(table, ["v_on_m"])["v_on_m"] for table in tables]
    names = labels(surveys)

    def draw(figure: FigureBase) -> None:
        for ax, name, layer, table, line in zip(
            panels(figure, len(surveys)), names, layers, tables, lines, strict=True
        ):
            draw_scatter(ax, table, "m", "v", line, among=among(chosen))
            ax.set_title(f"{plain(name, 24)}, layer {layer}\n{ax.get_title()}", fontsize=7.5)
            ax.set_xlabel(M)
            ax.set_ylabel(V)

    data = pd.concat(
        [named(t.assign(layer=layer), n) for n, layer, t in zip(names, layers, tables, strict=True)],
        ignore_index=True,
    )
    told = fit_caption(surveys, chosen, "V(Xₜ) on M(Xₜ), one point a unit, with the least-squares line.")
    return Plate(data, f"{told} {captions.intervals()}", draw, panels_size(len(surveys), height=2.4))
