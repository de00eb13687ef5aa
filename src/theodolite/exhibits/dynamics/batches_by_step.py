"""batches: the geometry of the training's own batches beside that of the fixed probe set, by training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import describe_population, join_sentences
from theodolite.exhibits.drawing.style import BLACK, DASHES, get_line_style
from theodolite.exhibits.dynamics.step_axis import choose_scale, format_step_axis
from theodolite.exhibits.dynamics.training_by_step import GEOMETRY, NUMBERS, name_panel
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import BATCHES, SERIES
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.series import series as tables
from theodolite.studies.series.averages import BLOCKS, split_by_scope
from theodolite.studies.survey_data import SurveyData, make_labels

PROBE_SET, TRAINING_BATCHES, LOGGED = "probe set", "training batches", "logged"
DASH = {PROBE_SET: DASHES[0], TRAINING_BATCHES: DASHES[1]}
COLUMNS = "survey layer layer_name measure source step value".split()


@exhibit(
    "dynamics/batches",
    title="Geometry of the training batches beside that of the probe set, by training step",
    needs=[SERIES, BATCHES],
    options=("population", "layers", "steps"),
)
def batches(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw chosen layers, one row of panels per series, after the loss and learning rate of the training."""
    names = make_labels(surveys)
    data = pd.concat(
        [_collect(survey, name, choice) for survey, name in zip(surveys, names, strict=True)], ignore_index=True
    )
    panels = [name for name in (*NUMBERS, *GEOMETRY) if (data["measure"] == name).any()]
    layers = list(dict.fromkeys(data["layer_name"].dropna()))
    colours = {layer: get_line_style(place).colour for place, layer in enumerate(layers)}

    def draw(figure: FigureBase) -> None:
        grid = figure.subplots(len(surveys), len(panels), squeeze=False)
        for axes, name in zip(grid, names, strict=True):
            rows = data[data["survey"] == name]
            steps = sorted(int(step) for step in rows["step"].unique())
            scale = choose_scale(sorted(set(rows.loc[rows["source"] != LOGGED, "step"])), choice.steps)
            for ax, measure in zip(axes, panels, strict=True):
                _draw(ax, rows[rows["measure"] == measure], colours)
                format_step_axis(ax, steps, scale)
                ax.set_title(name_panel(measure))
                shorten_ticks(ax)
            if len(surveys) > 1:
                axes[0].set_ylabel(clean_label(name, 30))
        lines = [Line2D([], [], c=colour, label=layer) for layer, colour in colours.items()]
        lines += [Line2D([], [], c=BLACK, ls=dash, label=source) for source, dash in DASH.items()]
        figure.legend(handles=lines, loc="outside upper center", ncols=min(len(lines), 6))

    caption = join_sentences(
        "Geometry of the training's own batches (dashed) and of the fixed probe set (solid).",
        "A point of the batches is the sum over one window, and stands at the measurement that ends it.",
        "The two differ in text, and the batches also in dropout and in the weights, which change in a window.",
        describe_population(choice),
    )
    return Plate(data, caption, draw, (1.95 * max(len(panels), 2), 2.1 * len(surveys) + 0.3))


def choose_layers(rows: pd.DataFrame) -> list[int]:
    """Return the first block, the middle one and the last; without blocks, the first layer and the last.

    >>> choose_layers(pd.DataFrame({"layer": [0, 1, 2, 3, 4], "layer_name": ["embeddings", *"abc", "final norm"]}))
    [1, 2, 3]
    """
    blocks = split_by_scope(rows)[BLOCKS]
    known = sorted({int(layer) for layer in (blocks if len(blocks) else rows)["layer"]})
    return sorted({known[0], known[(len(known) - 1) // 2], known[-1]})


def _collect(survey: SurveyData, name: str, choice: Choice) -> pd.DataFrame:
    """Return one row per layer, measure, source and step, and those that the training logged."""
    chosen = choice.layers or choose_layers(survey.tables[tables.BATCHES])
    parts = []
    for source, key in ((PROBE_SET, tables.SERIES), (TRAINING_BATCHES, tables.BATCHES)):
        table = survey.tables[key]
        rows = table[(table["population"] == choice.population) & table["layer"].isin(chosen)]
        long = rows.melt(["layer", "layer_name", "step"], list(GEOMETRY), "measure", "value")
        parts.append(long.assign(source=source))
    logged = survey.tables.get(tables.TRAINING, pd.DataFrame())
    parts += [
        pd.DataFrame({"step": logged["step"], "measure": column, "value": logged[column], "source": LOGGED})
        for column in NUMBERS
        if column in logged
    ]
    joined = pd.concat([part.astype({"value": "float64"}) for part in parts], ignore_index=True)
    joined["layer"] = joined["layer"].astype("Int64")
    return joined[joined["value"].notna()].assign(survey=name)[COLUMNS]


def _draw(ax: Axes, rows: pd.DataFrame, colours: dict[str, str]) -> None:
    """Draw one line per layer and source; what the training logged has no layer."""
    for (layer, source), line in rows.groupby(["layer_name", "source"], sort=False, dropna=False):
        line = line.sort_values("step")
        style: dict[str, Any] = {"c": BLACK}
        if source in DASH:
            colour = colours[str(layer)]
            face = colour if source == PROBE_SET else "white"
            style = {"c": colour, "ls": DASH[str(source)], "marker": "o", "ms": 2.6, "mfc": face}
        ax.plot(line["step"].to_numpy(np.float64), line["value"].to_numpy(np.float64), lw=1.1, **style)
