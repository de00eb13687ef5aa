"""The CKA of all pairs of layers of a bridge as a heat map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.heatmap import draw_heat
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.saving import save
from theodolite.text import short_path

MOST_NUMBERS = 14
"""Layers of a model up to which the value is written into every square."""


def draw_cka(facts: dict[str, Any], table: pd.DataFrame) -> Plate:
    """Return the heat map of the table `cka` of a bridge; pairs that were not measured are grey."""
    first = str(facts["model"]["name"])
    second = str((facts["model_b"] or facts["model"])["name"])

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        image = draw_heat(ax, table, "layer_a", "layer_b", "cka", limit=1.0)
        image.set_clim(0, 1)
        image.set_cmap("viridis")
        # draw_heat places equally wide squares; ticks name the layers, which may have gaps
        wide = table.pivot(index="layer_a", columns="layer_b", values="cka")
        image.set_extent((-0.5, wide.shape[1] - 0.5, wide.shape[0] - 0.5, -0.5))
        for axis, layers in ((ax.xaxis, wide.columns), (ax.yaxis, wide.index)):
            step = -(-len(layers) // MOST_NUMBERS)
            axis.set_ticks(np.arange(len(layers))[::step], [str(layer) for layer in layers[::step]])
        ax.set_xlabel(f"layer of {short_path(second)}")
        ax.set_ylabel(f"layer of {short_path(first)}")
        if max(wide.shape) <= MOST_NUMBERS:
            for (row, column), value in np.ndenumerate(wide.to_numpy(np.float64)):
                if np.isfinite(value):
                    colour = "black" if value > 0.6 else "white"
                    ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)
        figure.colorbar(image, ax=ax, label="CKA")

    caption = join_sentences(
        f"Debiased linear CKA of the layers of {short_path(first)} (rows) and {short_path(second)} (columns) over "
        f"{int(table['n'].max()):,} positions of {facts['corpus']['name']}.",
        str(facts["matched"]),
    )
    return Plate(table, caption, draw, (5.2, 4.2))


def save_cka(facts: dict[str, Any], table: pd.DataFrame, path: Path) -> None:
    """Write the heat map of a bridge in the format that the suffix of the file names."""
    plate = draw_cka(facts, table)
    save(Exhibit("bridge/cka", "CKA between layers", "figure", lambda surveys, choice: plate), plate, path)
