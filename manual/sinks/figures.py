"""The figures of docs/sinks.md, drawn from the tables in docs/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from gallery.__main__ import shrink
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from manual.sinks.tables import DOCS, KEY, read
from theodolite.exhibits.drawing.panels import PAGE_WIDTH
from theodolite.exhibits.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, RC, VERMILLION
from theodolite.studies.anisotropy.layers import Z

LINES: dict[str, tuple[str, Any, float, str]] = {
    "all": (VERMILLION, "-", 3.0, "all positions"),
    "without-first": (BLUE, "-", 1.8, "without first positions"),
    "without-sinks": (GREEN, "-", 0.9, "without sinks"),
    "rest": (BLACK, (0, (1, 1)), 1.2, "without first, sinks and delimiters"),
}
"""Colour, dash, width and name of each population. Equal curves are seen because they differ in width."""
SORTS = {
    "first": (VERMILLION, "o", "first positions"),
    "other sinks": (BLUE, "s", "other sinks"),
    "delimiters": (ORANGE, "^", "other delimiters"),
    "others": (GREY, ".", "all others"),
}
COLOURS = 256
"""Colours of a figure: with fewer, the pale bands of two populations become one."""
Panels = list[tuple[tuple[str, str], pd.DataFrame]]


def draw_all() -> None:
    """Draw every figure into docs/images, reduced in size."""
    for name, draw in FIGURES.items():
        with mpl.rc_context(RC), TemporaryDirectory() as folder:
            draw().savefig(Path(folder) / "figure.png")
            shrink(Path(folder) / "figure.png", DOCS / "images" / f"{name}.png", COLOURS)


def panels_of(table: pd.DataFrame, *, causal: bool) -> Panels:
    """Return the rows of each model and corpus, of decoders or of encoders, without the final norm."""
    chosen = table[(table["causal"] == causal) & (table["layer_name"] != "final norm")]
    return [((str(key[0]), str(key[1])), part) for key, part in chosen.groupby(["model", "corpus"], sort=False)]


def draw_curves(panels: Panels, column: str, label: str, *, columns: int, top: float | None = None) -> Figure:
    """Draw a measure by layer for each model and corpus, one line per population, with 95% intervals."""
    figure, axes = _panels(len(panels), columns)
    for axis, ((model, corpus), part) in zip(axes, panels, strict=True):
        for population, (colour, dash, width, text) in LINES.items():
            rows = part[part["population"] == population]
            x, y = rows["layer"].to_numpy(), rows[column].to_numpy(np.float64)
            error = Z * rows[f"{column}_se"].to_numpy(np.float64)
            axis.plot(x, y, color=colour, linestyle=dash, linewidth=width, label=text)
            axis.fill_between(x, y - error, y + error, color=colour, alpha=0.18, linewidth=0)
        _label(axis, model, corpus)
    axes[0].set_ylim(0, top)
    for axis in axes[::columns]:
        axis.set_ylabel(label)
    _legend(figure, axes[0])
    return figure


def draw_norms(panels: Panels, columns: int) -> Figure:
    """Draw the median norm of each sort of position by layer; the bars are the smallest and the largest norm."""
    figure, axes = _panels(len(panels), columns)
    for axis, ((model, corpus), part) in zip(axes, panels, strict=True):
        for place, (sort, (colour, marker, text)) in enumerate(SORTS.items()):
            rows = part[(part["sort"] == sort) & (part["n"] > 0)]
            middle = rows["norm_p50"]
            reach = np.stack([middle - rows["norm_min"], rows["norm_max"] - middle])
            axis.errorbar(
                rows["layer"] + 0.16 * (place - 1.5), middle, reach, color=colour, marker=marker, markersize=2.4,
                linewidth=0.9, elinewidth=0.4, label=text,
            )  # fmt: skip
        axis.set_yscale("log")
        _label(axis, model, corpus)
    for axis in axes[::columns]:
        axis.set_ylabel("norm (median, least, largest)")
    _legend(figure, axes[0])
    return figure


def draw_writes(panels: Panels) -> Figure:
    """Draw how much longer attention and the MLP of each block make the first positions, and how long they are."""
    figure, axes = _panels(len(panels), len(panels))
    for axis, ((model, corpus), part) in zip(axes, panels, strict=True):
        norms = part[part["part"] == "mlp"]
        axis.plot(norms["layer"], norms["norm_after"], color=GREY, linewidth=1.8, label="norm after the block")
        for name, (colour, text) in {"attn": (BLUE, "attention"), "mlp": (VERMILLION, "MLP")}.items():
            rows = part[part["part"] == name]
            axis.vlines(rows["layer"], rows["change_min"], rows["change_max"], color=colour, linewidth=0.6)
            axis.plot(rows["layer"], rows["change_p50"], color=colour, marker="o", markersize=2.4, linewidth=0.9,
                      label=f"change by {text}")  # fmt: skip
        axis.axhline(0, color=BLACK, linewidth=0.4)
        most = 4 * norms["norm_after"].max()
        axis.set_yscale("symlog", linthresh=10)
        axis.set_ylim(-most, most)
        _label(axis, model, corpus)
        axis.set_xlabel("block")
    axes[0].set_ylabel("norm, and its change")
    _legend(figure, axes[0])
    return figure


def _panels(count: int, columns: int) -> tuple[Figure, list[Axes]]:
    rows = -(-count // columns)
    figure = Figure(figsize=(PAGE_WIDTH, 1.75 * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True).ravel())
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _label(axis: Axes, model: str, corpus: str) -> None:
    axis.set_title(f"{model}, {corpus.removesuffix('.txt')}")
    axis.set_xlabel("layer")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), handlelength=3)


def _main_models(panels: Panels) -> Panels:
    """Return the panels of models of the catalogue."""
    from theodolite.corpora.catalogue.entries import MODELS

    return [panel for panel in panels if panel[0][0] in MODELS]


def _decoders(column: str, label: str, top: float | None = None) -> Callable[[], Figure]:
    def draw() -> Figure:
        panels = _main_models(panels_of(read("populations"), causal=True))
        return draw_curves(panels, column, label, columns=2, top=top)

    return draw


def _encoders() -> Figure:
    panels = panels_of(read("populations"), causal=False)
    return draw_curves(panels, "anisotropy_svd", "SVD anisotropy", columns=3)


def _birth() -> Figure:
    return draw_norms(_main_models(panels_of(read("norms"), causal=True)), 2)


def _writes() -> Figure:
    table = read("writes")
    first = table[(table["sort"] == "first") & (table["part"] != "rest")]
    return draw_writes([((str(key[0]), str(key[1])), part) for key, part in first.groupby(KEY, sort=False)])


FIGURES: dict[str, Callable[[], Figure]] = {
    "sinks-bell": _decoders("anisotropy_svd", "SVD anisotropy", top=1.05),  # a share, which an interval may exceed
    "sinks-rank": _decoders("effective_rank", "effective rank"),
    "sinks-cosine": _decoders("mean_cosine", "mean cosine"),
    "sinks-norms": _birth,
    "sinks-writes": _writes,
    "sinks-encoders": _encoders,
}
