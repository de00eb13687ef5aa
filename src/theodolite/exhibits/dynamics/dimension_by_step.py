"""fig2: the intrinsic dimension averaged over layers, by training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing.axes import clean_label, mark_empty
from theodolite.exhibits.drawing.captions import (
    describe_corpora,
    describe_population,
    describe_seeds,
    join_sentences,
)
from theodolite.exhibits.drawing.panels import legend_columns, legend_inches
from theodolite.exhibits.drawing.style import GREY, get_line_style
from theodolite.exhibits.dynamics.step_axis import choose_scale, format_step_axis
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import DIMENSION, SERIES
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.series.averages import (
    BLOCKS,
    WITH_EMBEDDINGS,
    average_layers,
    find_small_samples,
    split_by_scope,
)
from theodolite.studies.series.seeds import group_seeds, merge_seeds
from theodolite.studies.survey_data import UNDEFINED_EVERYWHERE, SurveyData, make_labels
from theodolite.text import format_scientific

Z = 1.96
DASHED = (0, (4, 1.5))
SCOPES = {WITH_EMBEDDINGS: ("embeddings and blocks", "-"), BLOCKS: ("blocks only", DASHED)}


@exhibit(
    "dynamics/fig2",
    title="Intrinsic dimension averaged over layers, by training step",
    needs=[SERIES, DIMENSION],
    options=("population", "steps"),
)
def fig2(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw TwoNN averaged over layers by step, one line per run, with and without the embeddings."""
    labels = make_labels(surveys)
    each = [_averaged(survey, name, choice) for survey, name in zip(surveys, labels, strict=True)]
    runs = group_seeds(labels)
    names = list(runs)
    tables = [_merge([each[place] for place in places], run) for run, places in runs.items()]
    data = pd.concat(tables, ignore_index=True)
    steps = sorted(data["step"].unique().tolist())
    scale = choose_scale(steps, choice.steps)
    width, shown = 4.6, [*names, *(label for label, _ in SCOPES.values())]

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        for place, table in enumerate(tables):
            for scope, (_, dash) in SCOPES.items():
                _draw(ax, table[table["scope"] == scope], place, dash)
        format_step_axis(ax, steps, scale)
        ax.set_ylabel("TwoNN, mean over layers")
        if not np.isfinite(data["mean"].to_numpy(np.float64)).any():
            mark_empty(ax, UNDEFINED_EVERYWHERE)
        handles = [
            Line2D([], [], c=get_line_style(place).colour, marker=get_line_style(place).marker, ms=3.5)
            for place in range(len(names))
        ]
        handles += [Line2D([], [], c=GREY, ls=dash, lw=1.1) for _, dash in SCOPES.values()]
        columns = legend_columns(shown, width)
        figure.legend(handles, [clean_label(name) for name in shown], loc="outside upper center", ncols=columns)

    caption = join_sentences(
        "Intrinsic dimension (TwoNN) averaged over layers, at each checkpoint.",
        describe_corpora(surveys),
        describe_population(choice),
        "Strip around the solid line: ±1.96 times the mean standard error of the layers, an upper bound for their "
        "mean."
        if any(len(places) == 1 for places in runs.values())
        else "",
        describe_seeds({run: len(places) for run, places in runs.items()}),
        "Neither mean includes the state after a final norm.",
        *(_describe_shape(table, name, len(tables) > 1) for table, name in zip(tables, names, strict=True)),
        *(_describe_small(survey, name, choice) for survey, name in zip(surveys, labels, strict=True)),
        _describe_missing(tables, names),
    )
    return Plate(data, caption, draw, (width, 2.7 + legend_inches(shown, width)))


def _averaged(survey: SurveyData, name: str, choice: Choice) -> pd.DataFrame:
    table = average_layers(survey, [choice.population], ["twonn"])
    table.insert(0, "survey", name)
    return table[table["scope"].isin(list(SCOPES))].reset_index(drop=True)


def _merge(tables: Sequence[pd.DataFrame], run: str) -> pd.DataFrame:
    """Return the table of a run: of several seeds the mean, with their range and without standard errors."""
    if len(tables) == 1:
        return tables[0]
    made = merge_seeds(tables, run, ["step", "population", "scope", "measure"], ["mean", "layers"])
    made["layers"] = made.pop("layers_low").astype("int64")
    return made.drop(columns="layers_high").assign(se=np.nan)


def _draw(ax: Axes, table: pd.DataFrame, place: int, dash: Any) -> None:
    line, x, y = get_line_style(place), table["step"].to_numpy(np.float64), table["mean"].to_numpy(np.float64)
    reach = Z * table["se"].to_numpy(np.float64)
    low, high = y - reach, y + reach
    if "mean_low" in table:
        low, high = (table[name].to_numpy(np.float64) for name in ("mean_low", "mean_high"))
    ax.plot(x, y, c=line.colour, marker=line.marker, ls=dash, ms=3.2, lw=1.1)
    if dash == "-":  # two overlapping strips cannot be distinguished
        ax.fill_between(x, low, high, color=line.colour, alpha=0.14, lw=0)


def _describe_shape(table: pd.DataFrame, name: str, several: bool) -> str:
    """State at which step the dimension is highest, and whether it falls afterwards by more than its error."""
    rows = table[(table["scope"] == WITH_EMBEDDINGS) & table["mean"].notna()]
    if len(rows) < 3:
        return ""
    top, last = rows.iloc[int(rows["mean"].to_numpy().argmax())], rows.iloc[-1]
    of = f" of {name}" if several else ""
    if top["step"] == last["step"]:
        return f"The mean{of} is highest at the last step."
    fall = float(top["mean"] - last["mean"])
    error = Z * float(np.hypot(top["se"], last["se"]))
    verdict = "more" if fall > error else "not more"
    comparison = "" if np.isnan(error) else f", {verdict} than its error"
    peak = f"step {int(top['step']):,} ({format_scientific(float(top['mean']))})"
    return f"The mean{of} is highest at {peak} and {format_scientific(fall)} lower at the last step{comparison}."


def _describe_small(survey: SurveyData, name: str, choice: Choice) -> str:
    """Name the layers that are not averaged because they have few distinct vectors."""
    table = survey.tables["series"]
    rows = split_by_scope(table[table["population"] == choice.population])[WITH_EMBEDDINGS]
    small = find_small_samples(rows)
    listed = ", ".join(f"{layer} ({n:,} distinct vectors)" for layer, n in small.items())
    return f"Not averaged in {clean_label(name)}: {listed}." if listed else ""


def _describe_missing(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> str:
    """Name the series in which the dimension of the embeddings is undefined at some step."""
    affected = []
    for table, name in zip(tables, names, strict=True):
        with_embeddings = table[table["scope"] == WITH_EMBEDDINGS]["layers"]
        blocks = table[table["scope"] == BLOCKS]["layers"]
        if (
            len(with_embeddings)
            and len(blocks)
            and with_embeddings.iloc[0]
            and int(with_embeddings.iloc[0]) == int(blocks.iloc[0])
        ):
            affected.append(name)
    names_text = ", ".join(affected)
    return (
        f"Both means of {names_text} are equal: the dimension of the embeddings is undefined or not averaged."
        if affected
        else ""
    )
