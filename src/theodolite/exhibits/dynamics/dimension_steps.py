"""fig2: the intrinsic dimension averaged over layers, against the training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns, legend_inches
from theodolite.exhibits.needs import DIMENSION, SERIES
from theodolite.exhibits.norm_variance.captions import caption, corpora, population
from theodolite.exhibits.note import UNDEFINED, empty
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.step_axis import scale_of, step_axis
from theodolite.exhibits.style import GREY, look
from theodolite.exhibits.text import number, plain
from theodolite.studies.choice import Choice
from theodolite.studies.dynamics.averages import BLOCKS, WITH_EMBEDDINGS, averages
from theodolite.studies.surveyed import Surveyed, labels

Z = 1.96
DASHED = (0, (4, 1.5))
SCOPES = {WITH_EMBEDDINGS: ("embeddings and blocks", "-"), BLOCKS: ("blocks alone", DASHED)}


@exhibit(
    "dynamics/fig2",
    title="Intrinsic dimension averaged over layers, against the training step",
    needs=[SERIES, DIMENSION],
    options=("population", "steps"),
)
def fig2(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw TwoNN averaged over the layers of every checkpoint, one line a series, with and without embeddings."""
    names = labels(surveys)
    tables = [_averaged(survey, name, choice) for survey, name in zip(surveys, names, strict=True)]
    data = pd.concat(tables, ignore_index=True)
    steps = sorted(data["step"].unique().tolist())
    scale = scale_of(steps, choice.steps)
    width, shown = 4.6, [*names, *(told for told, _ in SCOPES.values())]

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        for place, table in enumerate(tables):
            for scope, (_, dash) in SCOPES.items():
                _draw(ax, table[table["scope"] == scope], place, dash)
        step_axis(ax, steps, scale)
        ax.set_ylabel("TwoNN, mean over layers")
        if not np.isfinite(data["mean"].to_numpy(np.float64)).any():
            empty(ax, UNDEFINED)
        handles = [
            Line2D([], [], c=look(place).colour, marker=look(place).marker, ms=3.5) for place in range(len(names))
        ]
        handles += [Line2D([], [], c=GREY, ls=dash, lw=1.1) for _, dash in SCOPES.values()]
        columns = legend_columns(shown, width)
        figure.legend(handles, [plain(name) for name in shown], loc="outside upper center", ncols=columns)

    told = caption(
        "Intrinsic dimension (TwoNN) averaged over the layers, at each checkpoint.",
        corpora(surveys),
        population(choice),
        "Strip, about the full line: ±1.96 times the layers' mean standard error, the most their mean can have.",
        "The state after a final norm is in neither mean.",
        *(_shape(table, name, len(tables) > 1) for table, name in zip(tables, names, strict=True)),
        _few(tables, names),
    )
    return Plate(data, told, draw, (width, 2.7 + legend_inches(shown, width)))


def _averaged(survey: Surveyed, name: str, choice: Choice) -> pd.DataFrame:
    table = averages(survey, [choice.population], ["twonn"])
    table.insert(0, "survey", name)
    return table[table["scope"].isin(list(SCOPES))].reset_index(drop=True)


def _draw(ax: Axes, table: pd.DataFrame, place: int, dash: Any) -> None:
    line, x, y = look(place), table["step"].to_numpy(np.float64), table["mean"].to_numpy(np.float64)
    reach = Z * table["se"].to_numpy(np.float64)
    ax.plot(x, y, c=line.colour, marker=line.marker, ls=dash, ms=3.2, lw=1.1)
    if dash == "-":  # two strips over each other show neither
        ax.fill_between(x, y - reach, y + reach, color=line.colour, alpha=0.14, lw=0)


def _shape(table: pd.DataFrame, name: str, several: bool) -> str:
    """Say where the dimension is highest, and whether it falls after that by more than its error."""
    rows = table[(table["scope"] == WITH_EMBEDDINGS) & table["mean"].notna()]
    if len(rows) < 3:
        return ""
    top, last = rows.iloc[int(rows["mean"].to_numpy().argmax())], rows.iloc[-1]
    of = f" of {name}" if several else ""
    if top["step"] == last["step"]:
        return f"The mean{of} is highest at the last step."
    fall = float(top["mean"] - last["mean"])
    error = Z * float(np.hypot(top["se"], last["se"]))
    beyond = "more" if fall > error else "not more"
    tail = "" if np.isnan(error) else f", {beyond} than its error"
    return (
        f"The mean{of} is highest at step {int(top['step']):,} ({number(float(top['mean']))}) and {number(fall)} "
        f"lower at the last{tail}."
    )


def _few(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> str:
    """Say of which series some layers are left out, being undefined at some step."""
    told = []
    for table, name in zip(tables, names, strict=True):
        whole = table[table["scope"] == WITH_EMBEDDINGS]["layers"]
        alone = table[table["scope"] == BLOCKS]["layers"]
        if len(whole) and len(alone) and whole.iloc[0] and int(whole.iloc[0]) == int(alone.iloc[0]):
            told.append(name)
    where = ", ".join(told)
    return f"Both means of {where} are of the same layers: the embeddings' dimension is not known." if told else ""
