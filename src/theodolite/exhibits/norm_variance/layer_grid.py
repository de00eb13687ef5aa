"""fig11 (12, 13): a grid of layers, everything on log10 n and V on M."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance.few_units import among, check_points
from theodolite.exhibits.norm_variance.panels import FITTED, LOG_N, WIDE, M, Q, V, fit_caption, named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.scatter import draw_scatter
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import FITS, fit, logged
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed, labels, spread_layers

ON_M = f"{V} on {M}"
LOGS = {f"log10_1{part}_on_log10_n": rf"$\log_{{10}}(1+{part.upper()}(X_t))$" for part in "qmv"} | {"v_on_m": ON_M}
RAW = {"q_on_log10_n": Q, "m_on_log10_n": M, "v_on_log10_n": V, "v_on_m": ON_M}
GRID = ("layers", *FITTED[1:])
Row = tuple[int, str, pd.DataFrame, dict[str, dict[str, Any]]]
Painter = Callable[..., None]


@exhibit(
    "norm-variance/fig11",
    "norm-variance/fig12",
    "norm-variance/fig13",
    title="Grid of layers: log10(1+Q), log10(1+M), log10(1+V) on log10 n, and V on M",
    needs=[UNITS],
    options=GRID,
)
def fig11(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw some layers of each model from input to output, four panels a layer."""
    first = "log₁₀(1+Q(Xₜ)), log₁₀(1+M(Xₜ)), log₁₀(1+V(Xₜ)) on log₁₀ n, and V(Xₜ) on M(Xₜ), from input to output."
    return layer_grid(surveys, choice.filtered(), LOGS, draw_scatter, first)


def layer_grid(
    surveys: Sequence[Surveyed], choice: Choice, columns: dict[str, str], paint: Painter, first: str
) -> Plate:
    """Lay out a block a model, a row a layer and a column a fit; `paint` draws each panel as draw_scatter does."""
    names = labels(surveys)
    blocks = [_rows(survey, choice, columns) for survey in surveys]
    check_points(surveys, choice, [pd.concat([table for _, _, table, _ in rows]) for rows in blocks])

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=[len(rows) for rows in blocks])
        for part, name, rows in zip(parts.ravel(), names, blocks, strict=True):
            part.suptitle(plain(name), fontsize=9)
            _draw_block(part, rows, columns, partial(paint, among=among(choice)))

    data = [
        named(table.assign(layer=layer), name)
        for name, rows in zip(names, blocks, strict=True)
        for layer, _, table, _ in rows
    ]
    height = sum(1.25 * len(rows) + 0.45 for rows in blocks)
    return Plate(pd.concat(data, ignore_index=True), fit_caption(surveys, choice, first), draw, (WIDE, height))


def _rows(survey: Surveyed, choice: Choice, columns: dict[str, str]) -> list[Row]:
    rows = []
    for layer in choice.layers or spread_layers(survey):
        table = points(survey, layer, choice)
        rows.append((layer, survey.layer_names[layer], logged(table), fit(table, columns)))
    return rows


def _draw_block(figure: FigureBase, rows: Sequence[Row], columns: dict[str, str], paint: Painter) -> None:
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for number, (across, (layer, name, table, lines)) in enumerate(zip(axes, rows, strict=True)):
        for ax, (column, label) in zip(across, columns.items(), strict=True):
            x, y = FITS[column]
            paint(ax, table, x, y, lines[column], size=3, interval=False)
            ax.title.set_fontsize(6.5)
            ax.tick_params(labelsize=6)
            if number == 0:
                ax.set_title(f"{label}\n{ax.get_title()}", fontsize=7)
            if number == len(rows) - 1:
                ax.set_xlabel(M if x == "m" else LOG_N, fontsize=7)
        across[0].set_ylabel(
            f"layer {layer}" + (f"\n{plain(name)}" if name != f"layer {layer}" else ""), fontsize=7
        )
