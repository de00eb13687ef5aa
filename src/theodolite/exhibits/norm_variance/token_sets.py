"""fig1: the embedding sets of chosen tokens in the plane of their means and the origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.name_places import draw_names, inside
from theodolite.exhibits.needs import TOKEN_SETS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import LOG_N, WIDE, named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.scatter import RASTER_FROM, tell_outside
from theodolite.exhibits.style import BLACK, VERMILLION
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.chosen_sets import ChosenSets, sets_of
from theodolite.studies.surveyed import Surveyed, labels

HEIGHT = 4.3
AXES = (5.45, 3.6)  # inches of a panel's axes, about
COLOURS = "viridis"
REACH = 0.6  # how far the axes may go beyond nearly all points, in their own range


@exhibit(
    "norm-variance/fig1",
    title="PCA of the embedding sets of chosen tokens",
    needs=[UNITS, TOKEN_SETS],
    reads=("token_sets",),
)
def fig1(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the vectors of each chosen token, coloured by its frequency, and the origin as a cross."""
    sets, names = [sets_of(survey) for survey in surveys], labels(surveys)
    every = np.concatenate([found.chosen["log10_n"].to_numpy(np.float64) for found in sets])
    scale = Normalize(float(every.min()), float(every.max()))

    def draw(figure: FigureBase) -> None:
        axes = list(figure.subplots(len(sets), 1, squeeze=False).ravel())
        for ax, name, found in zip(axes, names, sets, strict=True):
            draw_sets(ax, found, scale)
            ax.set_title(f"{plain(name)}, layer {found.layer}")
        bar = figure.colorbar(ScalarMappable(scale, COLOURS), ax=axes, aspect=40, pad=0.015)
        bar.set_label(LOG_N)

    data = pd.concat(
        [named(_data(found), name) for name, found in zip(names, sets, strict=True)], ignore_index=True
    )
    return Plate(data, _caption(surveys, sets), draw, (WIDE, HEIGHT * len(sets)))


def draw_sets(ax: Axes, found: ChosenSets, scale: Normalize) -> None:
    """Draw one survey's sets, the origin, the tokens' means and their names."""
    places, chosen = found.places, found.chosen
    x, y = places["x"].to_numpy(np.float64), places["y"].to_numpy(np.float64)
    look: dict[str, Any] = {"cmap": COLOURS, "norm": scale}
    ax.scatter(
        x, y, c=places["log10_n"], s=5, alpha=0.45, linewidths=0, rasterized=len(places) > RASTER_FROM, **look
    )
    ax.scatter(
        chosen["x"], chosen["y"], c=chosen["log10_n"], s=16, edgecolors=BLACK, linewidths=0.5, zorder=5, **look
    )
    ax.plot([0], [0], ls="", marker="x", ms=9, mew=2.2, c=VERMILLION, zorder=6)
    ax.set_xlim(*_limits(x, chosen["x"].to_numpy(np.float64)))
    ax.set_ylim(*_limits(y, chosen["y"].to_numpy(np.float64)))
    tell_outside(ax, int((~inside(ax, places, "x", "y")).sum()))
    first, second = found.facts["share"]
    ax.set_xlabel(f"PC1 ({first:.0%})")
    ax.set_ylabel(f"PC2 ({second:.0%})")
    short_ticks(ax)
    draw_names(ax, chosen["name"].tolist(), chosen[["x", "y"]].to_numpy(np.float64), AXES)


def _limits(values: NDArray[np.float64], means: NDArray[np.float64]) -> tuple[float, float]:
    """Return limits with every mean, the origin and nearly all points: one massive vector must not flatten all."""
    core = np.concatenate([np.quantile(values, [0.01, 0.99]), means, [0.0]])
    low, high = float(core.min()), float(core.max())
    reach = (high - low) or 1.0
    low, high = max(float(values.min()), low - REACH * reach), min(float(values.max()), high + REACH * reach)
    low, high = min(low, float(core.min())), max(high, float(core.max()))
    return low - 0.04 * reach, high + 0.04 * reach


def _data(found: ChosenSets) -> pd.DataFrame:
    table = found.places.assign(unit=found.chosen["unit"].to_numpy()[found.places["token"].to_numpy()])
    return table.assign(layer=found.layer)[["layer", "unit", "log10_n", "x", "y"]]


def _caption(surveys: Sequence[Surveyed], sets: Sequence[ChosenSets]) -> str:
    most = max(int(found.facts["most"]) for found in sets)
    return caption(
        "Embedding sets Xₜ of chosen tokens on the two principal axes of their means and the origin (cross; moved "
        "to 0; in brackets the share of their variance), coloured by frequency; ringed, with names: the means.",
        captions.corpora(surveys),
        captions.units(surveys),
        chosen_by(sets),
        counted(surveys, sets),
        f"Of each token at most {most:,} vectors, chosen by hash; means are over all that count.",
    )


def counted(surveys: Sequence[Surveyed], sets: Sequence[ChosenSets]) -> str:
    """Say which positions the sets are of, each model's where they differ."""
    told = {
        name: captions.POPULATIONS[found.population] for name, found in zip(labels(surveys), sets, strict=True)
    }
    if len(set(told.values())) == 1:
        return f"Vectors: {next(iter(told.values()))}."
    return f"Vectors: {'; '.join(f'{what} in {name}' for name, what in told.items())}."


def chosen_by(sets: Sequence[ChosenSets]) -> str:
    """Say how the tokens were chosen."""
    if any(found.facts["by_hand"] for found in sets):
        return "Tokens chosen by hand." if all(found.facts["by_hand"] for found in sets) else ""
    seeds = dict.fromkeys(int(found.facts["seed"]) for found in sets)
    return (
        f"Tokens of three characters or more with {captions.RANGE}, drawn from ten equal intervals of log₁₀ n "
        f"(seed {', '.join(map(str, seeds))})."
    )
