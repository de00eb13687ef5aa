"""The CKA of all pairs of layers of a bridge as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.heatmap import draw_heat
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit, find
from theodolite.exhibits.saving import save
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData
from theodolite.text import short_path

MOST_NUMBERS = 14
"""Layers of a model up to which the value is written into every square."""


@exhibit(
    "bridge/cka",
    title="Similarity of all pairs of layers (CKA)",
    needs=[require_laboratory("bridge", "theodolite bridge MODEL [OTHER] --corpus CORPUS --out DIR")],
    reads=["cka"],
)
def cka(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw one heat map per bridge; pairs that were not measured are grey."""
    tables = [each.tables["cka"] for each in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(surveys), squeeze=False)[0]
        for ax, each, table in zip(axes, surveys, tables, strict=True):
            figure.colorbar(_draw_heat_map(ax, *_model_names(each.facts), table), ax=ax, label="CKA")

    caption = join_sentences(*(_describe(each.facts, table) for each, table in zip(surveys, tables, strict=True)))
    data = pd.concat(
        [
            table.assign(bridge=" · ".join(_model_names(each.facts)))
            for each, table in zip(surveys, tables, strict=True)
        ],
        ignore_index=True,
    )
    return Plate(data, caption, draw, (5.2 * len(surveys), 4.2))


def _model_names(facts: dict[str, Any]) -> tuple[str, str]:
    first, second = facts["model"], facts["model_b"] or facts["model"]
    return short_path(str(first["name"])), short_path(str(second["name"]))


def _describe(facts: dict[str, Any], table: pd.DataFrame) -> str:
    first, second = _model_names(facts)
    return join_sentences(
        f"Debiased linear CKA of the layers of {first} (rows) and {second} (columns) over "
        f"{int(table['n'].max()):,} positions of {facts['corpus']['name']}.",
        str(facts["matched"]),
    )


def _draw_heat_map(ax: Axes, first: str, second: str, table: pd.DataFrame) -> Any:
    image = draw_heat(ax, table, "layer_a", "layer_b", "cka", limit=1.0)
    image.set_clim(0, 1)
    image.set_cmap("viridis")
    # draw_heat places equally wide squares; ticks name the layers, which may have gaps
    wide = table.pivot(index="layer_a", columns="layer_b", values="cka")
    image.set_extent((-0.5, wide.shape[1] - 0.5, wide.shape[0] - 0.5, -0.5))
    for axis, layers in ((ax.xaxis, wide.columns), (ax.yaxis, wide.index)):
        step = -(-len(layers) // MOST_NUMBERS)
        axis.set_ticks(np.arange(len(layers))[::step], [str(layer) for layer in layers[::step]])
    ax.set_xlabel(f"layer of {second}")
    ax.set_ylabel(f"layer of {first}")
    if max(wide.shape) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(wide.to_numpy(np.float64)):
            if np.isfinite(value):
                colour = "black" if value > 0.6 else "white"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)
    return image


def draw_cka(facts: dict[str, Any], table: pd.DataFrame) -> Plate:
    """Return the heat map of the table `cka` of one bridge."""
    return cka([SurveyData(facts, {"cka": table}, None)], Choice())


def save_cka(facts: dict[str, Any], table: pd.DataFrame, path: Path) -> None:
    """Write the heat map of a bridge in the format that the suffix of the file names."""
    save(find("bridge/cka"), draw_cka(facts, table), path)
