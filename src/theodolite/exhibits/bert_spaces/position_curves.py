"""fig16: cosines of the first positions to the next 128; fig17: the same by distance, or RoPE's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.weighed import POSITIONS, WEIGHED
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import Need
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLACK, GREY, VERMILLION, look
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

SHADES = colormaps["viridis"]
BY_DISTANCE = ("position_relative", "position_rotary", "position_bias")
SOME_POSITIONS = Need(
    "models that know positions by weights or rotation",
    lambda survey: any(name in survey.tables for name in BY_DISTANCE),
    lambda survey: f"{survey.model} has neither a table of positions, rotary frequencies nor a relative bias",
    left_out=lambda survey: "nothing of positions to draw",
)


@exhibit(
    "bert-spaces/fig16",
    title="Cosines of the first positions to the next 128",
    needs=[WEIGHED, POSITIONS],
    reads=(),
)
def fig16(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the cosines of positions 1 to 10 to the positions after them, by those positions."""
    names = labels(surveys)
    found = [tables_of(survey, ["position_first"])[0] for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(found), 1, squeeze=False).ravel()
        for ax, name, table in zip(axes, names, found, strict=True):
            _lines(ax, table, "other")
            ax.set(title=plain(name), xlabel="position", ylabel="cosine")
        _bar(figure, list(axes), found)

    data = pd.concat([named(table, name) for name, table in zip(names, found, strict=True)], ignore_index=True)
    told = "Cosines of the first ten positions after position 0 to position 1 and all up to 128 after each."
    return Plate(data, told, draw, (7.0, 2.5 * len(found)))


@exhibit(
    "bert-spaces/fig17",
    title="Cosines of positions by their distance",
    needs=[WEIGHED, SOME_POSITIONS],
    reads=(),
)
def fig17(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the same by distance, with the mean over all positions; RoPE's curve or T5's bias without a table."""
    names = labels(surveys)
    panels = [_panel_of(survey) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(panels), 1, squeeze=False).ravel()
        for ax, name, (kind, table, first) in zip(axes, names, panels, strict=True):
            DRAWN[kind](ax, table, first)
            ax.set_title(plain(name))
        learned = [(ax, first) for ax, (_, _, first) in zip(axes, panels, strict=True) if first is not None]
        if learned:
            _bar(figure, [ax for ax, _ in learned], [first for _, first in learned])

    kinds = {kind for kind, _, _ in panels}
    told = caption(*(sentence for kind, sentence in TOLD.items() if kind in kinds))
    data = pd.concat(
        [named(table, name) for name, (_, table, _) in zip(names, panels, strict=True)], ignore_index=True
    )
    return Plate(data, told, draw, (7.0, 2.7 * len(panels)))


TOLD = {
    "position_relative": "Cosines of a position to those after it, by distance: thin, the first ten positions "
    "after position 0, one by one; thick, the mean over all trained positions but position 0, its strip 5 to 95% "
    "of them; dashed, sinusoidal encodings of as many dimensions.",
    "position_rotary": "A model without a table of positions turns queries and keys: drawn is the mean of cos(k "
    "θ) over its rotary frequencies θ, the cosine left to two equal vectors k positions apart.",
    "position_bias": "A model without a table of positions adds a learned bias to attention scores by the "
    "distance from query to key: one line a head.",
}


def _panel_of(survey: Surveyed) -> tuple[str, pd.DataFrame, pd.DataFrame | None]:
    kind = next(name for name in BY_DISTANCE if name in survey.tables)
    first = survey.tables["position_first"] if kind == "position_relative" else None
    return kind, survey.tables[kind], first


def _learned(ax: Axes, table: pd.DataFrame, first: Any) -> None:
    after = first[first["lag"] >= 0]
    ax.fill_between(table["lag"], table["p05"], table["p95"], color=GREY, alpha=0.2, lw=0)
    _lines(ax, after, "lag", width=0.7)
    ax.plot(table["lag"], table["mean"], c=BLACK, lw=1.8, label="mean, 5–95%")
    ax.plot(table["lag"], table["sinusoid"], c=VERMILLION, lw=1.0, ls="--", label="sinusoids")
    ax.set(xlabel="distance", ylabel="cosine")
    ax.legend(loc="upper right", ncols=2)


def _rotary(ax: Axes, table: pd.DataFrame, first: Any) -> None:
    for number, (name, of) in enumerate(table.groupby("frequencies", sort=False)):
        line = look(number)
        ax.plot(of["distance"], of["similarity"], c=line.colour, ls=line.dash, lw=1.1, label=plain(name))
    ax.set(xlabel="distance (positions)", ylabel="mean of cos(kθ)")
    ax.axhline(0, c=GREY, lw=0.5)
    ax.legend(loc="upper right")


def _bias(ax: Axes, table: pd.DataFrame, first: Any) -> None:
    known = table["distance"].notna().any()
    for name, of in table.groupby("table", sort=False):
        dash = "-" if name == table["table"].iloc[0] else "--"
        for place, (_, head) in enumerate(of.groupby("head")):
            across = (head["distance"] if known else head["bucket"]).to_numpy(np.float64)
            ax.plot(across, head["bias"], c=look(place).colour, ls=dash, lw=0.9)
    ax.set(xlabel="distance from query to key" if known else "bucket", ylabel="bias")
    ax.axhline(0, c=GREY, lw=0.5)


DRAWN = {"position_relative": _learned, "position_rotary": _rotary, "position_bias": _bias}


def _lines(ax: Axes, table: pd.DataFrame, across: str, width: float = 1.0) -> None:
    most = max(float(table["position"].max()), 2.0) if len(table) else 2.0
    for position, of in table.groupby("position"):
        ax.plot(of[across], of["cosine"], c=SHADES((float(str(position)) - 1) / (most - 1) * 0.92), lw=width)
    ax.axhline(0, c=GREY, lw=0.5)
    ax.margins(x=0.01)


def _bar(figure: FigureBase, axes: list[Axes], tables: Sequence[pd.DataFrame]) -> None:
    most = max([2.0, *(float(table["position"].max()) for table in tables if len(table))])
    scale = ScalarMappable(Normalize(1, 1 + (most - 1) / 0.92), SHADES)
    figure.colorbar(scale, ax=axes, fraction=0.03, label="from position").ax.set_ylim(1, most)
