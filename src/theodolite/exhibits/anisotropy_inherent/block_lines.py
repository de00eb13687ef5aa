"""Plots by the norm of the input bias, which the exhibits of `theodolite block` share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullLocator

from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.style import BLUE, GREY, VERMILLION, LineStyle
from theodolite.studies.survey_data import SurveyData
from theodolite.text import format_short

BIAS = "norm of the bias, N"
IN, OUT = LineStyle(BLUE, "s", (0, (4, 1.5))), LineStyle(VERMILLION, "o", "-")
UNIFORM = "all weights equal"
WIDE_RANGE = 4.0
"""Numbers use a logarithmic axis if the largest exceeds the smallest by more than this factor."""
BLOCK_COMMAND = "theodolite block --config bert-base --out DIR"


def draw_by_norm(ax: Axes, table: pd.DataFrame, column: str, line: LineStyle, **style: Any) -> None:
    """Draw a column by the norm, with a strip where the table has `COLUMN_low` and `COLUMN_high`."""
    norms, values = table["norm"].to_numpy(np.float64), table[column].to_numpy(np.float64)
    drawn: dict[str, Any] = {"c": line.colour, "marker": line.marker, "ls": line.dash, "ms": 3.0, "lw": 1.1}
    ax.plot(norms, values, **drawn | style)
    if f"{column}_low" in table:
        low, high = (table[f"{column}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
        ax.fill_between(norms, low, high, color=line.colour, alpha=0.18, lw=0)


def format_norm_axis(ax: Axes, table: pd.DataFrame) -> None:
    """Format the axis of norms: logarithmic, but linear from 0 to the smallest positive norm."""
    positive = table["norm"][table["norm"] > 0]
    if len(positive):
        least, most = float(positive.min()), float(positive.max())
        ax.set_xscale("symlog", linthresh=least, linscale=0.4)
        ax.set_xlim(left=0 if (table["norm"] == 0).any() else None)
        powers = [10.0**power for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)]
        ax.set_xticks([0.0, *powers], ["0", *map(format_short, powers)])
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(BIAS)


def use_log_scale(*axes: Axes) -> None:
    """Use a logarithmic axis if the positive numbers span a wide range. Call it after drawing."""
    values = np.concatenate([line.get_ydata() for ax in axes for line in ax.lines if line.get_label() != UNIFORM])
    known = values[np.isfinite(values) & (values > 0)]
    if len(known) and known.max() > WIDE_RANGE * known.min():
        for ax in axes:
            ax.set_yscale("log")


def draw_uniform_weight(ax: Axes, length: int) -> None:
    """Draw the weight that all entries of a row have if they are equal."""
    ax.axhline(1 / length, c=GREY, ls=":", lw=0.9, zorder=0, label=UNIFORM)


def compose_block_caption(surveys: Sequence[SurveyData], first: str, *sentences: str) -> str:
    """Return the caption, with the inputs of the block."""
    settings = [survey.facts["settings"] for survey in surveys]
    kinds = {"table": "rows of the embedding table", "states": "sampled states, with the bias along their mean"}
    inputs = dict.fromkeys(f"{s['sequences']} sequences of {s['length']} {kinds[s['inputs']]}" for s in settings)
    return join_sentences(first, f"Inputs: {'; '.join(inputs)}; without dropout.", *sentences)


def describe_runs(surveys: Sequence[SurveyData]) -> str:
    """State what the line and the strip are."""
    counts = dict.fromkeys(str(len(survey.tables["runs"])) for survey in surveys)
    return f"Line: first run. Strip: lowest to highest of {' or '.join(counts)} runs (seeds and bias directions)."


def draw_shared_legend(figure: FigureBase, ax: Axes, columns: int) -> None:
    """Draw the legend of one panel above all panels."""
    handles, labels = ax.get_legend_handles_labels()
    kept = [(handle, label) for handle, label in zip(handles, labels, strict=True) if label != UNIFORM]
    figure.legend(*zip(*kept, strict=True), loc="outside upper center", ncols=columns)
