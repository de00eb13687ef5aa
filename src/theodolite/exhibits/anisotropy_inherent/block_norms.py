"""fig6a and fig6b: mean cosine and norms of the input and output of one block, and the fixed point N*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.block_lines import (
    BLOCK_COMMAND,
    IN,
    OUT,
    compose_block_caption,
    describe_runs,
    draw_by_norm,
    draw_shared_legend,
    format_norm_axis,
)
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.panels import choose_grid, make_panels
from theodolite.exhibits.drawing.style import BLACK, GREY, PALE
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.studies.block.results import block_labels, fixed_points, over_runs
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData
from theodolite.text import format_scientific

ENDS = (("in", IN), ("out", OUT))
QUANTITIES = {"mean_norm": "mean norm", "norm_of_mean": "norm of the mean"}


@exhibit(
    "anisotropy-inherent/fig6a",
    title="Mean cosine of the input and output of one block, by the norm of the input bias",
    needs=[require_laboratory("block", BLOCK_COMMAND)],
    reads=(),
)
def fig6a(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the mean cosine of the input and the output of each block, by the norm of the bias."""
    columns = [f"mean_cosine_{end}" for end, _ in ENDS]

    def panel(ax: Axes, table: pd.DataFrame, survey: SurveyData) -> None:
        ax.axhline(0, c=PALE, lw=0.7, zorder=0)
        for end, line in ENDS:
            draw_by_norm(ax, table, f"mean_cosine_{end}", line, label=end)
        ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)
        ax.set_ylabel("mean cosine")

    caption = compose_block_caption(
        surveys,
        "Mean cosine over all pairs of vectors at the input (in) and the output (out) of one block, by the norm "
        "of a bias that is added to every input.",
        describe_runs(surveys),
    )
    return _make_plate(surveys, columns, caption, panel)


@exhibit(
    "anisotropy-inherent/fig6b",
    title="Norms of the input and output of one block, by the norm of the input bias, and the fixed point N*",
    needs=[require_laboratory("block", BLOCK_COMMAND)],
    reads=(),
)
def fig6b(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw mean norm and norm of the mean of the input and output of each block, and the fixed point N*."""
    columns = [f"{quantity}_{end}" for quantity in QUANTITIES for end, _ in ENDS]
    has_trained = any("trained" in survey.tables for survey in surveys)

    def panel(ax: Axes, table: pd.DataFrame, survey: SurveyData) -> None:
        for end, line in ENDS:
            draw_by_norm(ax, table, f"mean_norm_{end}", line, ls="-", label=f"mean norm, {end}")
            draw_by_norm(ax, table, f"norm_of_mean_{end}", line, ls=":", mfc="white", label=f"norm of mean, {end}")
        ax.set_yscale("log")
        point = fixed_points(survey)["mean_norm"]
        if point["found"] == point["runs"]:
            ax.axvline(point["n_star"], c=BLACK, lw=0.8, ls=(0, (4, 2)), zorder=0)
        ax.text(0.03, 0.97, _format_fixed_point(point), transform=ax.transAxes, va="top", fontsize=7)
        if "trained" in survey.tables:
            _draw_trained(ax, survey.tables["trained"])
        ax.set_ylabel("norm")
        shorten_ticks(ax)

    caption = compose_block_caption(
        surveys,
        "Mean norm (solid) and norm of the mean (dotted) at the input (in) and the output (out) of one block. The "
        "paper does not distinguish the two. N*: norm of the bias at which the mean norm is the same at input and "
        "output, ± standard deviation over runs. Where a run has none, both ends only approach each other, and no "
        "N* is drawn.",
        "Ticks on the right: mean norms of the layers of the trained model, from its survey."
        if has_trained
        else "",
        describe_runs(surveys),
    )
    return _make_plate(surveys, columns, caption, panel)


def _format_fixed_point(point: dict[str, Any]) -> str:
    """Return the text on the fixed point. If some runs have none, there is none that all runs share."""
    if not point["found"]:
        return "N*: none in range"
    if point["found"] < point["runs"]:
        return f"N*: none in {point['runs'] - point['found']} of {point['runs']} runs"
    spread = f" ± {format_scientific(point['n_star_sd'], 1)}" if point["found"] > 1 else ""
    return f"N* = {format_scientific(point['n_star'], 4)}{spread}"


def _draw_trained(ax: Axes, layers: pd.DataFrame) -> None:
    for value in layers["mean_norm"]:
        ax.plot([0.965, 1.0], [value, value], transform=ax.get_yaxis_transform(), c=GREY, lw=0.9)


def _make_plate(
    surveys: Sequence[SurveyData],
    columns: Sequence[str],
    caption: str,
    panel: Callable[[Axes, pd.DataFrame, SurveyData], None],
) -> Plate:
    names = block_labels(surveys)
    tables = [over_runs(s, "norms", columns, label=name) for s, name in zip(surveys, names, strict=True)]
    rows, across = choose_grid(len(surveys))

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys))
        for ax, table, survey, name in zip(axes, tables, surveys, names, strict=False):
            panel(ax, table, survey)
            format_norm_axis(ax, table)
            ax.set_title(clean_label(name))
        draw_shared_legend(figure, axes[0], 2 if across == 1 else 4)

    return Plate(pd.concat(tables, ignore_index=True), caption, draw, (max(4.2, 2.7 * across), 2.7 * rows + 0.2))
