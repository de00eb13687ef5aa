"""fig2 and fig7: one point per unit at one layer: V on M, and Q, M and V on log10 n."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, LOG_N, M, Q, V, compose_fit_caption
from theodolite.exhibits.drawing.panels import PAGE_WIDTH, make_panels, panels_size
from theodolite.exhibits.drawing.scatter import draw_frequency_bar, draw_scatter, make_frequency_scale
from theodolite.exhibits.empty_surveys import check_points, describe_filter
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fit_units
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.survey_data import SurveyData, make_labels, middle_layer


@exhibit(
    "norm-variance/fig2", title="V on M at a middle layer, one panel per model", needs=[UNITS], options=FIT_OPTIONS
)
def fig2(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw V(X_t) on M(X_t) at one layer of each model, with the fitted line, its slope and R2."""
    chosen = choice.with_filter()
    layers = [one_layer(chosen, middle_layer(survey)) for survey in surveys]
    tables = [select_units(survey, layer, chosen) for survey, layer in zip(surveys, layers, strict=True)]
    check_points(surveys, chosen, tables)
    lines = [fit_units(table, ["v_on_m"])["v_on_m"] for table in tables]
    names = make_labels(surveys)

    scale = make_frequency_scale(tables)

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys))
        for ax, name, layer, table, line in zip(axes, names, layers, tables, lines, strict=True):
            draw_scatter(ax, table, "m", "v", line, filter_text=describe_filter(chosen), scale=scale)
            ax.set_title(f"{clean_label(name, 24)}, layer {layer}\n{ax.get_title()}", fontsize=7.5)
            ax.set_xlabel(M)
            ax.set_ylabel(V)
        draw_frequency_bar(figure, axes, scale)

    data = pd.concat(
        [add_survey_column(t.assign(layer=layer), n) for n, layer, t in zip(names, layers, tables, strict=True)],
        ignore_index=True,
    )
    caption = compose_fit_caption(
        surveys,
        chosen,
        "V(Xₜ) on M(Xₜ), one point per unit, coloured by frequency, with the least-squares line.",
        captions.describe_intervals(),
    )
    return Plate(data, caption, draw, panels_size(len(surveys), height=2.4))


COLUMNS = {"q": Q, "m": M, "v": V}


@exhibit("norm-variance/fig7", title="Q, M and V on log10 n at a middle layer", needs=[UNITS], options=FIT_OPTIONS)
def fig7(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw Q(X_t), M(X_t) and V(X_t) on log10 n_t with fitted lines, one row per model."""
    chosen = choice.with_filter()
    layers = [one_layer(chosen, middle_layer(survey)) for survey in surveys]
    tables = [select_units(survey, layer, chosen) for survey, layer in zip(surveys, layers, strict=True)]
    check_points(surveys, chosen, tables)
    lines = [fit_units(table, [f"{column}_on_log10_n" for column in COLUMNS]) for table in tables]
    names = make_labels(surveys)

    def draw(figure: FigureBase) -> None:
        rows = figure.subplots(len(surveys), len(COLUMNS), squeeze=False, sharex="row")
        for number, (name, layer) in enumerate(zip(names, layers, strict=True)):
            for ax, (column, label) in zip(rows[number], COLUMNS.items(), strict=True):
                line = lines[number][f"{column}_on_log10_n"]
                draw_scatter(ax, tables[number], "log10_n", column, line, filter_text=describe_filter(chosen))
                ax.set_ylabel(label)
                ax.set_xlabel(LOG_N)
            rows[number][1].set_title(
                f"{clean_label(name)}, layer {layer}\n{rows[number][1].get_title()}", fontsize=7
            )

    data = pd.concat(
        [add_survey_column(t.assign(layer=layer), n) for n, layer, t in zip(names, layers, tables, strict=True)],
        ignore_index=True,
    )
    caption = compose_fit_caption(
        surveys, chosen, "Q(Xₜ), M(Xₜ) and V(Xₜ) on log₁₀ n, one point per unit.", captions.describe_intervals()
    )
    return Plate(data, caption, draw, (PAGE_WIDTH, 2.35 * len(surveys)))
