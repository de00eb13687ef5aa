"""fig17: slopes of log10(1 + Q), log10(1 + M) and log10(1 + V) on log10 n, by layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import draw_layers, draw_legend
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.few_units import undrawn_units
from theodolite.exhibits.norm_variance.panels import FITTED, by_layer_size, layer_caption, named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import GREY
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fits
from theodolite.studies.surveyed import Surveyed, labels

LOGS = {f"log10_1{part}_on_log10_n": rf"$\log_{{10}}(1+{part.upper()}(X_t))$" for part in "qmv"}


@exhibit(
    "norm-variance/fig17",
    title="Slopes of log10(1+Q), log10(1+M), log10(1+V) on log10 n, by layer",
    needs=[UNITS],
    options=FITTED[1:],
)
def fig17(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the slopes on log10 n_t for each layer of all models."""
    chosen, names = choice.filtered(), labels(surveys)
    tables = [named(fits(s, names=LOGS, choices=[chosen]), name) for s, name in zip(surveys, names, strict=True)]

    lacking = undrawn_units(surveys, chosen, tables, ["slope"])

    def draw(figure: FigureBase) -> None:
        for ax, (name, label) in zip(figure.subplots(1, 3), LOGS.items(), strict=True):
            ax.axhline(0, c=GREY, lw=0.6, zorder=0)
            lines = [table[table["fit"] == name] for table in tables]
            draw_layers(ax, lines, "slope", band=("slope_low", "slope_high"))
            ax.set_title(f"slope of {label}")
        draw_legend(figure, names)

    told = layer_caption(
        surveys,
        chosen,
        tables,
        "Slopes of log₁₀(1+Q(Xₜ)), log₁₀(1+M(Xₜ)) and log₁₀(1+V(Xₜ)) on log₁₀ n, for each layer.",
        captions.in_fits(surveys, chosen),
        "Strips: 95% intervals, by bootstrap over units, cut at the panel's edge.",
        lacking,
    )
    return Plate(pd.concat(tables, ignore_index=True), told, draw, by_layer_size(names))
