"""fig4: the C.V. of Q, and slope and R2 of V on M, by layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import draw_layers, draw_legend
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.few_units import undrawn_units
from theodolite.exhibits.norm_variance.panels import FITTED, M, Q, V, by_layer_size, layer_caption, named
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import tradeoff
from theodolite.studies.surveyed import Surveyed, labels


@exhibit(
    "norm-variance/fig4",
    title="C.V. of Q, slope and R2 of V on M, by layer",
    needs=[UNITS],
    options=FITTED[1:],
)
def fig4(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the C.V. of Q(X_t), the slope of V(X_t) on M(X_t) and its R2 for each layer of all models."""
    chosen = choice.filtered()
    names = labels(surveys)
    tables = [named(tradeoff(survey, chosen), name) for survey, name in zip(surveys, names, strict=True)]

    lacking = undrawn_units(surveys, chosen, tables, ["q_cv", "slope", "r2"])

    def draw(figure: FigureBase) -> None:
        cv, slope, r2 = figure.subplots(1, 3)
        draw_layers(cv, tables, "q_cv")
        cv.set_title(f"C.V. of {Q}")
        cv.set_ylim(bottom=0)
        draw_layers(slope, tables, "slope", band=("slope_low", "slope_high"))
        slope.set_title(f"slope of {V} on {M}")
        draw_layers(r2, tables, "r2")
        r2.set_title("$R^2$")
        r2.set_ylim(-0.02, 1.02)
        draw_legend(figure, names)

    told = layer_caption(
        surveys,
        chosen,
        tables,
        "Coefficient of variation of Q(Xₜ), and slope and R² of V(Xₜ) on M(Xₜ), for each layer.",
        captions.in_fits(surveys, chosen, "Over"),
        "Strip: the slope's 95% interval, by bootstrap over units, cut at the panel's edge.",
        lacking,
    )
    return Plate(pd.concat(tables, ignore_index=True), told, draw, by_layer_size(names))
