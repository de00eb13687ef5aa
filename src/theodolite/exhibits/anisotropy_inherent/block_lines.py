"""How blocks are drawn: a panel or a row of panels a folder, numbers on the norm of the bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullLocator

from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.style import BLUE, GREY, VERMILLION, Look
from theodolite.exhibits.ticks import short
from theodolite.studies.surveyed import Surveyed

BIAS = "norm of the bias, N"
IN, OUT = Look(BLUE, "s", (0, (4, 1.5))), Look(VERMILLION, "o", "-")
UNIFORM = "all weights equal"
WIDE = 4.0
"""Numbers further apart than this are drawn on a logarithmic axis."""
WAY = "theodolite block --config bert-base --out DIR"


def draw_numbers(ax: Axes, table: pd.DataFrame, column: str, line: Look, **style: Any) -> None:
    """Draw a column on the norm, with a strip from its lowest to its highest where the table has them."""
    norms, values = table["norm"].to_numpy(np.float64), table[column].to_numpy(np.float64)
    drawn: dict[str, Any] = {"c": line.colour, "marker": line.marker, "ls": line.dash, "ms": 3.0, "lw": 1.1}
    ax.plot(norms, values, **drawn | style)
    if f"{column}_low" in table:
        low, high = (table[f"{column}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
        ax.fill_between(norms, low, high, color=line.colour, alpha=0.18, lw=0)


def finish(ax: Axes, table: pd.DataFrame) -> None:
    """Label the axis of norms: logarithmic, and straight from 0 to the first norm above it."""
    positive = table["norm"][table["norm"] > 0]
    if len(positive):
        least, most = float(positive.min()), float(positive.max())
        ax.set_xscale("symlog", linthresh=least, linscale=0.4)
        ax.set_xlim(left=0 if (table["norm"] == 0).any() else None)
        powers = [10.0**power for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)]
        ax.set_xticks([0.0, *powers], ["0", *map(short, powers)])
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(BIAS)


def scale(*axes: Axes) -> None:
    """Make an axis of positive numbers logarithmic where they differ by much; call it when all is drawn."""
    values = np.concatenate([line.get_ydata() for ax in axes for line in ax.lines if line.get_label() != UNIFORM])
    known = values[np.isfinite(values) & (values > 0)]
    if len(known) and known.max() > WIDE * known.min():
        for ax in axes:
            ax.set_yscale("log")


def uniform(ax: Axes, length: int) -> None:
    """Draw what every weight of a row would be if none stood out."""
    ax.axhline(1 / length, c=GREY, ls=":", lw=0.9, zorder=0, label=UNIFORM)


def panels(count: int) -> tuple[int, int]:
    """Return rows and columns for so many panels, at most three beside each other."""
    columns = min(count, 3)
    return -(-count // columns), columns


def block_caption(surveys: Sequence[Surveyed], first: str, *rest: str) -> str:
    """Return the caption: what, of how many sequences, what the marks mean."""
    settings = [survey.facts["settings"] for survey in surveys]
    fed = {"table": "rows of the embedding table", "states": "sampled states, the bias along their mean"}
    told = dict.fromkeys(f"{s['sequences']} sequences of {s['length']} {fed[s['inputs']]}" for s in settings)
    return caption(first, f"Inputs: {'; '.join(told)}; dropout off.", *rest)


def runs_strip(surveys: Sequence[Surveyed]) -> str:
    """Say what the strip is."""
    counts = dict.fromkeys(str(len(survey.tables["runs"])) for survey in surveys)
    return f"Line: the first run; strip: lowest to highest of {' or '.join(counts)} runs (seeds and directions)."


def legend_above(figure: FigureBase, ax: Axes, columns: int) -> None:
    """Draw one legend above all panels, of what one of them shows."""
    handles, words = ax.get_legend_handles_labels()
    kept = [(handle, word) for handle, word in zip(handles, words, strict=True) if word != UNIFORM]
    figure.legend(*zip(*kept, strict=True), loc="outside upper center", ncols=columns)
