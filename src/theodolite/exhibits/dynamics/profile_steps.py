"""fig3 and fig4: the SVD anisotropy by layer at each checkpoint, a panel a model, coloured by the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.depth_lines import draw_line, finish, has_final_norm
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import SERIES
from theodolite.exhibits.norm_variance.captions import caption, corpora, population
from theodolite.exhibits.norm_variance.panels import panels
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.step_axis import step_bar, step_colours
from theodolite.exhibits.style import Look
from theodolite.exhibits.text import number, plain
from theodolite.studies.anisotropy.by_layer import by_layer
from theodolite.studies.choice import Choice
from theodolite.studies.dynamics.at_step import at_step, steps_of
from theodolite.studies.dynamics.averages import BLOCKS, scoped
from theodolite.studies.surveyed import Surveyed, labels

ANISOTROPY = "anisotropy_svd"


@exhibit(
    "dynamics/fig3",
    "dynamics/fig4",
    title="SVD anisotropy by layer at checkpoints of the training, a panel a model",
    needs=[SERIES],
    options=("population", "depth"),
)
def fig3(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the anisotropy profile of every checkpoint, the earliest darkest."""
    names, x = labels(surveys), "depth" if choice.depth == "normalised" else "layer"
    tables = [
        [_at(survey, step, choice, name) for step in steps_of(survey)]
        for survey, name in zip(surveys, names, strict=True)
    ]

    every = [table for of_series in tables for table in of_series]
    highest = np.nanmax([0.0, *(float(table[ANISOTROPY].max()) for table in every)])
    top = 1.0 if highest > 0.6 else max(0.1, 1.2 * highest)

    def draw(figure: FigureBase) -> None:
        axes = panels(figure, len(surveys), columns=2)
        for ax, survey, name, of_series in zip(axes, surveys, names, tables, strict=True):
            colours = step_colours(len(of_series))
            for colour, table in zip(colours, of_series, strict=True):
                draw_line(ax, table, ANISOTROPY, Look(colour, "o", "-"), x=x, ms=2.4)
            finish(ax, of_series, ANISOTROPY, x)
            ax.set_ylim(-0.03 * top, 1.03 * top)
            ax.set_title(plain(name, 34))
            step_bar(figure, ax, steps_of(survey))
        axes[0].set_ylabel("SVD anisotropy")

    told = caption(
        "SVD anisotropy, the share of the variance along its first direction, by layer at each checkpoint.",
        corpora(surveys),
        population(choice),
        *(_growth(of_series, name) for of_series, name in zip(tables, names, strict=True)),
        "Open marker: the state after the final norm." if has_final_norm(every) else "",
    )
    across = min(len(surveys), 2)
    size = (4.2 if across == 1 else 7.0), 2.5 * -(-len(surveys) // 2)
    return Plate(pd.concat(every, ignore_index=True), told, draw, size)


def _at(survey: Surveyed, step: int, choice: Choice, name: str) -> pd.DataFrame:
    table = by_layer(at_step(survey, step), choice.population, [ANISOTROPY], name)
    table.insert(1, "step", step)
    return table


def _growth(of_series: Sequence[pd.DataFrame], name: str) -> str:
    """Say how far the mean over blocks comes from the first step to the last."""
    if len(of_series) < 2:
        return ""
    first, last = (float(scoped(table)[BLOCKS][ANISOTROPY].mean()) for table in (of_series[0], of_series[-1]))
    steps = [int(table["step"].iloc[0]) for table in (of_series[0], of_series[-1])]
    return f"{name}, mean over blocks: {number(first)} at step {steps[0]:,}, {number(last)} at step {steps[1]:,}."
