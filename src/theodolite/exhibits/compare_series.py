"""Series on the same axes: means over blocks of any columns of the table of layers, by training step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.errors import InputError, nearest
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import (
    describe_corpora,
    describe_population,
    describe_seeds,
    join_sentences,
)
from theodolite.exhibits.drawing.panels import draw_legend, legend_inches, make_panels, panels_size
from theodolite.exhibits.drawing.style import get_line_style
from theodolite.exhibits.dynamics.step_axis import choose_scale, format_step_axis
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import SERIES
from theodolite.measures.columns import find_column
from theodolite.studies.choice import Choice, check_population
from theodolite.studies.series.averages import BLOCKS, WITH_EMBEDDINGS, average_layers, layer_measures
from theodolite.studies.series.seeds import group_seeds, merge_seeds
from theodolite.studies.series.series import SERIES as TABLE
from theodolite.studies.survey_data import SurveyData, make_labels

DEFAULTS = ("mean_cosine", "anisotropy_svd", "effective_rank", "twonn")
Z95 = 1.96


def compare_series(series: Sequence[SurveyData], measures: Sequence[str], choice: Choice) -> Plate:
    """Return a figure with one panel per measure and one line per series; a point is the mean over blocks.

    Series whose names differ only in their seed are one line, with a band from the lowest to the highest. The
    numbers have one row per line and step. Layers where a measure is undefined at some step are left out.
    """
    for one in series:
        if not SERIES.is_met(one):
            raise InputError(f"compare needs either surveys or series: {SERIES.explain(one)}.")
    chosen = choice.for_surveys(series)
    for one in series:
        check_population(one, chosen.population)
    columns = _check_measures(series, measures)
    labels = make_labels(series)
    each = [
        tabulate_steps(one, chosen.population, columns, name) for one, name in zip(series, labels, strict=True)
    ]
    runs = group_seeds(labels)
    names = list(runs)
    tables = [
        merge_seeds([each[place] for place in places], run, ["step", "population"], columns)
        if len(places) > 1
        else each[places[0]]
        for run, places in runs.items()
    ]
    data = pd.concat(tables, ignore_index=True)
    steps = sorted(int(step) for step in data["step"].unique())

    def draw(figure: FigureBase) -> None:
        for ax, column in zip(make_panels(figure, len(columns)), columns, strict=True):
            for place, table in enumerate(tables):
                _draw_line(ax, table, column, place)
            format_step_axis(ax, steps, choose_scale(steps, chosen.steps))
            ax.set_title(clean_label(find_column(column).title))
            shorten_ticks(ax)
        draw_legend(figure, names, width=size[0])

    width, height = panels_size(len(columns), height=2.0)
    size = (max(width, 4.6), height + legend_inches(names, max(width, 4.6)))
    caption = join_sentences(
        "Means over blocks by training step.",
        describe_corpora(series),
        describe_population(chosen),
        describe_seeds({run: len(places) for run, places in runs.items()}),
        f"Strip{' of one series' * (len(runs) < len(series))}: ±1.96 standard errors."
        if _has_errors(data)
        else "",
    )
    return Plate(data, caption, draw, size, data)


def tabulate_steps(series: SurveyData, population: str, columns: Sequence[str], name: str) -> pd.DataFrame:
    """Return one row per step with the mean over blocks of each column and its standard error.

    A series without blocks, such as of one module, is averaged over all its layers.
    """
    averages = average_layers(series, [population], list(columns))
    scope = BLOCKS if (averages["scope"] == BLOCKS).any() else WITH_EMBEDDINGS
    rows = averages[averages["scope"] == scope]
    made = pd.DataFrame({"survey": name, "step": sorted(rows["step"].unique()), "population": population})
    for column in columns:
        own = rows[rows["measure"] == column].set_index("step")
        for part, suffix in (("mean", ""), ("se", "_se")):
            made[f"{column}{suffix}"] = own[part].reindex(made["step"]).to_numpy(np.float64)
    return made


def _check_measures(series: Sequence[SurveyData], measures: Sequence[str]) -> list[str]:
    known = list(dict.fromkeys(name for one in series for name in layer_measures(one.tables[TABLE])))
    for name in measures:
        if name not in known:
            hint = nearest(name.lower(), known) or f" There are {', '.join(known)}."
            raise InputError(f"--measure: there is no column {name!r} in the table of the series.{hint}")
    defined = {name for one in series for name in DEFAULTS if one.tables[TABLE][name].notna().any()}
    return list(dict.fromkeys(measures)) or [name for name in DEFAULTS if name in defined] or [DEFAULTS[0]]


def _draw_line(ax: Axes, table: pd.DataFrame, column: str, place: int) -> None:
    style = get_line_style(place)
    x, y = (table[name].to_numpy(np.float64) for name in ("step", column))
    ax.plot(x, y, c=style.colour, ls=style.dash, marker=style.marker, ms=3.5, lw=1.1)
    if f"{column}_low" in table:
        low, high = (table[f"{column}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
    else:
        reach = Z95 * table[f"{column}_se"].to_numpy(np.float64)
        low, high = y - reach, y + reach
    if np.isfinite(low).any():
        ax.fill_between(x, low, high, color=style.colour, alpha=0.18, lw=0)


def _has_errors(data: pd.DataFrame) -> bool:
    return bool(data.filter(regex="_se$").notna().any(axis=None))
