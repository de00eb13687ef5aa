"""fig24: differences of sentence pairs on a plane, and their class means; and the cosines by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns, legend_inches
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import WIDE, named, panels, panels_size
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.exhibits.style import BLUE, GREY, PALE, Look, look
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

CONTRAST = of_laboratory("contrast", "theodolite contrast MODEL PAIRS.json --out DIR")
MEAN = 0  # the pair under which a class's mean stands
MOST = 9  # panels of cosines by layer


@exhibit(
    "bert-spaces/fig24",
    title="Difference vectors of sentence pairs and their means",
    needs=[CONTRAST],
    options=("layer",),
    reads=(),
)
def fig24(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw every difference on the plane of the two strongest directions, and every class's mean as an arrow."""
    names = labels(surveys)
    layers = [one_layer(choice, last_layer(survey)) for survey in surveys]
    tables = [_at(tables_of(s, ["points"])[0], k) for s, k in zip(surveys, layers, strict=True)]
    shares = [_at(tables_of(s, ["axes"])[0], k)["share"].tolist() for s, k in zip(surveys, layers, strict=True)]
    classes = list(dict.fromkeys(name for table in tables for name in table["class"]))
    looks = {name: look(number) for number, name in enumerate(classes)}
    size = WIDE, 2.9 * len(surveys) + legend_inches(classes, WIDE)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(surveys), 2, squeeze=False)
        for across, name, layer, table, share, survey in zip(
            axes, names, layers, tables, shares, surveys, strict=True
        ):
            for ax, first in zip(across, (1, 3), strict=True):
                _plane(ax, table, f"d{first}", f"d{first + 1}", looks)
                ax.set_xlabel(f"direction {first} ({share[first - 1]:.0%})")
                ax.set_ylabel(f"direction {first + 1} ({share[first]:.0%})")
                ax.set_title(f"{plain(name, 34)}, {survey.layer_names[layer]}")
        handles = [_handle(looks[name]) for name in classes]
        told = [plain(name) for name in classes]
        figure.legend(handles, told, loc="outside upper center", ncols=legend_columns(told, WIDE))

    told = caption(
        "Differences of the vectors of the two sentences of a pair (second minus first; a mark each) and the mean "
        "of each class (an arrow from 0), on the four directions that hold most of all squared length (in "
        "brackets). The cross is 0, no difference; the axes go through it, not through the mean.",
        sources(surveys),
    )
    data = pd.concat([named(table, name) for name, table in zip(names, tables, strict=True)], ignore_index=True)
    return Plate(data, told, draw, size)


@exhibit(
    "bert-spaces/fig24-layers",
    title="Cosines between mean differences by layer, with intervals",
    needs=[CONTRAST],
    reads=(),
)
def fig24_layers(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the cosines of class means on the layer, a panel for each of the strongest, a line a folder."""
    names = labels(surveys)
    tables = [named(tables_of(survey, ["cosines"])[0], name) for survey, name in zip(surveys, names, strict=True)]
    data = pd.concat(tables, ignore_index=True)
    strongest = data.assign(size=data["cosine"].abs()).groupby(["class_a", "class_b"], sort=False)["size"].max()
    chosen = list(strongest.dropna().sort_values(ascending=False, kind="stable").head(MOST).index)
    size = panels_size(max(len(chosen), 1), height=1.7, legend=legend_inches(names, 7.0))

    def draw(figure: FigureBase) -> None:
        if not chosen:
            figure.text(0.5, 0.5, "no two classes, or no direction at any layer", ha="center", fontsize=8)
            return
        for ax, (a, b) in zip(panels(figure, len(chosen)), chosen, strict=True):
            for number, name in enumerate(names):
                rows = data[(data["survey"] == name) & (data["class_a"] == a) & (data["class_b"] == b)]
                _by_layer(ax, rows, look(number), alone=len(names) == 1)
            ax.axhline(0, c=GREY, lw=0.6, zorder=1)
            ax.set_ylim(-1.02, 1.02)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
            ax.set_title(f"{plain(a, 22)} and {plain(b, 22)}", fontsize=7)
            ax.set_xlabel("layer")
            ax.set_ylabel("cosine")
        if len(names) > 1:
            handles = [_line(look(number)) for number in range(len(names))]
            told = [plain(name) for name in names]
            figure.legend(handles, told, loc="outside upper center", ncols=legend_columns(told, 7.0))

    pale = "pale band: 95% of cosines between classes of random pairs; " if len(names) == 1 else ""
    total = len(strongest)
    which = f"the {len(chosen)} of {total} that are largest at any layer" if total > len(chosen) else "all"
    told = caption(
        f"Cosines between the mean differences of two classes of sentence pairs by layer, {which}. Bars: 95% by "
        f"bootstrap over pairs; {pale}filled: sure at that layer (adjusted p and interval, beyond random pairs).",
        sources(surveys),
    )
    return Plate(data, told, draw, size)


def last_layer(survey: Surveyed) -> int:
    """Return the last layer that a laboratory's folder has."""
    return list(survey.layer_names)[-1]


def sources(surveys: Sequence[Surveyed]) -> str:
    """Say which models read which pairs, and how sentences were pooled."""
    told = [
        f"{survey.model} on {survey.corpus} ({survey.documents} pairs; pooling: "
        f"{survey.facts['settings']['pooling']})"
        for survey in surveys
    ]
    return "; ".join(dict.fromkeys(told)) + "."


def _plane(ax: Axes, table: pd.DataFrame, across: str, up: str, looks: dict[str, Look]) -> None:
    ax.plot(0, 0, "+", c=GREY, ms=9, mew=1.2, zorder=1)
    for name, rows in table.groupby("class", sort=False):
        style = looks[str(name)]
        pairs, mean = rows[rows["pair"] != MEAN], rows[rows["pair"] == MEAN]
        x, y = pairs[across].to_numpy(np.float64), pairs[up].to_numpy(np.float64)
        ax.scatter(x, y, s=13, c=style.colour, marker=style.marker, alpha=0.6, linewidths=0, zorder=2)
        ends = (float(mean[across].iloc[0]), float(mean[up].iloc[0]))
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": style.colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=ends, xytext=(0, 0), arrowprops=arrow, zorder=4)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    short_ticks(ax)


def _by_layer(ax: Axes, rows: pd.DataFrame, style: Look, *, alone: bool) -> None:
    layer, cosine, low, high = (rows[name].to_numpy(np.float64) for name in ("layer", "cosine", "low", "high"))
    if alone:
        band = [rows[name].to_numpy(np.float64) for name in ("reference_low", "reference_high")]
        ax.fill_between(layer, band[0], band[1], color=PALE, alpha=0.35, lw=0, zorder=0)
    ax.vlines(layer, low, high, color=style.colour, lw=1.0, zorder=2)
    colour = style.colour if not alone else BLUE
    ax.plot(layer, cosine, c=colour, ls=style.dash, lw=1.0, marker=style.marker, ms=3.4, mfc="white", zorder=3)
    sure = rows["verdict"].eq("sure").to_numpy(bool)
    ax.plot(layer[sure], cosine[sure], c=colour, ls="", marker=style.marker, ms=3.4, zorder=4)


def _at(table: pd.DataFrame, layer: int) -> pd.DataFrame:
    return table[table["layer"] == layer]


def _handle(style: Look) -> Line2D:
    return Line2D([], [], c=style.colour, marker=style.marker, ls="", ms=4)


def _line(style: Look) -> Line2D:
    return Line2D([], [], c=style.colour, marker=style.marker, ls=style.dash, ms=3.5, lw=1.1)
