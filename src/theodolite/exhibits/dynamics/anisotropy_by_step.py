"""fig3 and fig4: SVD anisotropy by layer, one line per checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import describe_corpora, describe_population, join_sentences
from theodolite.exhibits.drawing.layer_lines import draw_line, format_layer_axis, has_final_norm
from theodolite.exhibits.drawing.panels import make_panels
from theodolite.exhibits.drawing.style import LineStyle
from theodolite.exhibits.dynamics.step_axis import choose_step_colours, draw_step_colorbar
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import SERIES
from theodolite.exhibits.registry import exhibit
from theodolite.studies.anisotropy.layers import tabulate_layers
from theodolite.studies.choice import Choice
from theodolite.studies.series.averages import BLOCKS, list_steps, select_step, split_by_scope
from theodolite.studies.survey_data import SurveyData, make_labels
from theodolite.text import format_scientific

ANISOTROPY = "anisotropy_svd"


@exhibit(
    "dynamics/fig3",
    "dynamics/fig4",
    title="SVD anisotropy by layer at each checkpoint, one panel per model",
    needs=[SERIES],
    options=("population", "depth"),
)
def fig3(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the anisotropy by layer, one line per checkpoint; the earliest is the darkest."""
    names, x = make_labels(surveys), "depth" if choice.depth == "normalised" else "layer"
    tables = [
        [_at(survey, step, choice, name) for step in list_steps(survey)]
        for survey, name in zip(surveys, names, strict=True)
    ]

    every = [table for of_series in tables for table in of_series]
    highest = np.nanmax([0.0, *(float(table[ANISOTROPY].max()) for table in every)])
    top = 1.0 if highest > 0.6 else max(0.1, 1.2 * highest)

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys), columns=2)
        for ax, survey, name, of_series in zip(axes, surveys, names, tables, strict=True):
            colours = choose_step_colours(len(of_series))
            for colour, table in zip(colours, of_series, strict=True):
                draw_line(ax, table, ANISOTROPY, LineStyle(colour, "o", "-"), x=x, ms=2.4)
            format_layer_axis(ax, of_series, ANISOTROPY, x)
            ax.set_ylim(-0.03 * top, 1.03 * top)
            ax.set_title(clean_label(name, 34))
            draw_step_colorbar(figure, ax, list_steps(survey))
        axes[0].set_ylabel("SVD anisotropy")

    caption = join_sentences(
        "SVD anisotropy (share of the variance along the first principal direction) by layer, at each checkpoint.",
        describe_corpora(surveys),
        describe_population(choice),
        *(_describe_growth(of_series, name) for of_series, name in zip(tables, names, strict=True)),
        "Open marker: the state after the final norm." if has_final_norm(every) else "",
    )
    across = min(len(surveys), 2)
    size = (4.2 if across == 1 else 7.0), 2.5 * -(-len(surveys) // 2)
    return Plate(pd.concat(every, ignore_index=True), caption, draw, size)


def _at(survey: SurveyData, step: int, choice: Choice, name: str) -> pd.DataFrame:
    table = tabulate_layers(select_step(survey, step), choice.population, [ANISOTROPY], name)
    table.insert(1, "step", step)
    return table


def _describe_growth(of_series: Sequence[pd.DataFrame], name: str) -> str:
    """State the mean over blocks at the first step and at the last."""
    if len(of_series) < 2:
        return ""
    first, last = (
        float(split_by_scope(table)[BLOCKS][ANISOTROPY].mean()) for table in (of_series[0], of_series[-1])
    )
    steps = [int(table["step"].iloc[0]) for table in (of_series[0], of_series[-1])]
    return (
        f"{name}, mean over blocks: {format_scientific(first)} at step {steps[0]:,}, {format_scientific(last)} at "
        f"step {steps[1]:,}."
    )
