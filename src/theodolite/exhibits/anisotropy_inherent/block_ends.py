"""fig6a and fig6b: what enters a block against what leaves it, and where both are as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.block_lines import (
    IN,
    OUT,
    WAY,
    block_caption,
    draw_numbers,
    finish,
    legend_above,
    panels,
    runs_strip,
)
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLACK, GREY, PALE
from theodolite.exhibits.text import number, plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.block.reading import block_labels, fixed_points, over_runs
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

ENDS = (("in", IN), ("out", OUT))
QUANTITIES = {"mean_norm": "mean norm", "norm_of_mean": "norm of the mean"}


@exhibit(
    "anisotropy-inherent/fig6a",
    title="Mean cosine in and out of one block as the input bias grows",
    needs=[of_laboratory("block", WAY)],
    reads=(),
)
def fig6a(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean cosine of what enters and what leaves each block on the norm of the bias."""
    columns = [f"mean_cosine_{end}" for end, _ in ENDS]

    def panel(ax: Axes, table: pd.DataFrame, survey: Surveyed) -> None:
        ax.axhline(0, c=PALE, lw=0.7, zorder=0)
        for end, line in ENDS:
            draw_numbers(ax, table, f"mean_cosine_{end}", line, label=end)
        ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)
        ax.set_ylabel("mean cosine")

    told = block_caption(
        surveys,
        "Mean cosine over all pairs of what enters and what leaves one block, on the norm of a bias that is added "
        "to every input.",
        runs_strip(surveys),
    )
    return _plate(surveys, columns, told, panel)


@exhibit(
    "anisotropy-inherent/fig6b",
    title="Norms in and out of one block as the input bias grows, and the fixed point N*",
    needs=[of_laboratory("block", WAY)],
    reads=(),
)
def fig6b(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean norm and the norm of the mean on both sides of each block, with N* where they meet."""
    columns = [f"{quantity}_{end}" for quantity in QUANTITIES for end, _ in ENDS]
    beside = any("trained" in survey.tables for survey in surveys)

    def panel(ax: Axes, table: pd.DataFrame, survey: Surveyed) -> None:
        for end, line in ENDS:
            draw_numbers(ax, table, f"mean_norm_{end}", line, ls="-", label=f"mean norm, {end}")
            draw_numbers(ax, table, f"norm_of_mean_{end}", line, ls=":", mfc="white", label=f"norm of mean, {end}")
        ax.set_yscale("log")
        point = fixed_points(survey)["mean_norm"]
        if point["found"]:
            ax.axvline(point["n_star"], c=BLACK, lw=0.8, ls=(0, (4, 2)), zorder=0)
        ax.text(0.03, 0.97, _star(point), transform=ax.transAxes, va="top", fontsize=7)
        if "trained" in survey.tables:
            _trained(ax, survey.tables["trained"])
        ax.set_ylabel("norm")
        short_ticks(ax)

    told = block_caption(
        surveys,
        "Mean norm (solid) and norm of the mean (dotted) of what enters and what leaves one block. The paper "
        "writes of both as one. N*: the bias norm at which the mean norm is the same on both sides, ± its "
        "standard deviation over runs.",
        "Ticks on the right: mean norms of the trained model's layers, from its survey." if beside else "",
        runs_strip(surveys),
    )
    return _plate(surveys, columns, told, panel)


def _star(point: dict[str, Any]) -> str:
    """Return what is said of the fixed point."""
    if not point["found"]:
        return "N*: none in range"
    spread = f" ± {number(point['n_star_sd'], 1)}" if point["found"] > 1 else ""
    some = f"\nin {point['found']} of {point['runs']} runs" if point["found"] < point["runs"] else ""
    return f"N* = {number(point['n_star'], 4)}{spread}{some}"


def _trained(ax: Axes, layers: pd.DataFrame) -> None:
    for value in layers["mean_norm"]:
        ax.plot([0.965, 1.0], [value, value], transform=ax.get_yaxis_transform(), c=GREY, lw=0.9)


def _plate(
    surveys: Sequence[Surveyed],
    columns: Sequence[str],
    told: str,
    panel: Callable[[Axes, pd.DataFrame, Surveyed], None],
) -> Plate:
    names = block_labels(surveys)
    tables = [over_runs(s, "norms", columns, label=name) for s, name in zip(surveys, names, strict=True)]
    rows, across = panels(len(surveys))

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(rows, across, squeeze=False).ravel()
        for ax, table, survey, name in zip(axes, tables, surveys, names, strict=False):
            panel(ax, table, survey)
            finish(ax, table)
            ax.set_title(plain(name))
        for ax in axes[len(surveys) :]:
            ax.set_axis_off()
        legend_above(figure, axes[0], 2 if across == 1 else 4)

    return Plate(pd.concat(tables, ignore_index=True), told, draw, (max(4.2, 2.7 * across), 2.7 * rows + 0.2))
