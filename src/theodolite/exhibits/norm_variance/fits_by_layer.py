"""fig4 and fig17: fits over units by layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, M, Q, V, compose_unit_layers_caption
from theodolite.exhibits.drawing.layer_lines import draw_profiles
from theodolite.exhibits.drawing.panels import by_layer_size, draw_legend
from theodolite.exhibits.drawing.style import GREY
from theodolite.exhibits.empty_surveys import describe_empty_units
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import make_fit_table
from theodolite.studies.norm_variance.profile import tradeoff
from theodolite.studies.survey_data import SurveyData, make_labels


@exhibit(
    "norm-variance/fig4",
    title="Coefficient of variation of Q, and slope and R2 of V on M, by layer",
    needs=[UNITS],
    options=FIT_OPTIONS[1:],
)
def fig4(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the C.V. of Q(X_t), and the slope and R2 of V(X_t) on M(X_t), by layer, one line per model."""
    chosen = choice.with_filter()
    names = make_labels(surveys)
    tables = [
        add_survey_column(tradeoff(survey, chosen), name) for survey, name in zip(surveys, names, strict=True)
    ]

    not_drawn = describe_empty_units(surveys, chosen, tables, ["q_cv", "slope", "r2"])

    def draw(figure: FigureBase) -> None:
        cv, slope, r2 = figure.subplots(1, 3)
        draw_profiles(cv, tables, "q_cv")
        cv.set_title(f"C.V. of {Q}")
        cv.set_ylim(bottom=0)
        draw_profiles(slope, tables, "slope")
        slope.set_title(f"slope of {V} on {M}")
        draw_profiles(r2, tables, "r2")
        r2.set_title("$R^2$")
        r2.set_ylim(-0.02, 1.02)
        draw_legend(figure, names)

    caption = compose_unit_layers_caption(
        surveys,
        chosen,
        tables,
        "Coefficient of variation (C.V.) of Q(Xₜ), and slope and R² of V(Xₜ) on M(Xₜ), by layer.",
        captions.describe_fit_units(surveys, chosen, "Computed over"),
        "Strips: 95% intervals by bootstrap over units, cut off at the edge of the panel.",
        not_drawn,
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, by_layer_size(names))


LOGS = {f"log10_1{part}_on_log10_n": rf"$\log_{{10}}(1+{part.upper()}(X_t))$" for part in "qmv"}


@exhibit(
    "norm-variance/fig17",
    title="Slopes of log10(1+Q), log10(1+M), log10(1+V) on log10 n, by layer",
    needs=[UNITS],
    options=FIT_OPTIONS[1:],
)
def fig17(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the slopes on log10 n_t by layer, one line per model."""
    chosen, names = choice.with_filter(), make_labels(surveys)
    tables = [
        add_survey_column(make_fit_table(s, names=LOGS, choices=[chosen]), name)
        for s, name in zip(surveys, names, strict=True)
    ]

    not_drawn = describe_empty_units(surveys, chosen, tables, ["slope"])

    def draw(figure: FigureBase) -> None:
        for ax, (name, label) in zip(figure.subplots(1, 3), LOGS.items(), strict=True):
            ax.axhline(0, c=GREY, lw=0.6, zorder=0)
            lines = [table[table["fit"] == name] for table in tables]
            draw_profiles(ax, lines, "slope")
            ax.set_title(f"slope of {label}")
        draw_legend(figure, names)

    caption = compose_unit_layers_caption(
        surveys,
        chosen,
        tables,
        "Slopes of log₁₀(1+Q(Xₜ)), log₁₀(1+M(Xₜ)) and log₁₀(1+V(Xₜ)) on log₁₀ n, by layer.",
        captions.describe_fit_units(surveys, chosen),
        "Strips: 95% intervals by bootstrap over units, cut off at the edge of the panel.",
        not_drawn,
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, by_layer_size(names))
