"""fig10: norms, distances, dot products and cosines within the tables; fig14: without the untrained tail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from theodolite.exhibits.bert_spaces.weighed import WEIGHED, models, one_model
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLUE, DASHES, GREY, VERMILLION
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed

TRAINED = "trained positions"
FEW = 4  # bins of so few values are all shown
OUTSIDE = 5e-3
PANELS = {
    "norm": "norm",
    "distance": "distance of pairs",
    "dot": "dot product of pairs",
    "cosine": "cosine of pairs",
}


@exhibit(
    "bert-spaces/fig10",
    title="Norms, distances, dot products and cosines of input and positional embeddings",
    needs=[WEIGHED],
    reads=(),
)
def fig10(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the distributions within the table of words and within that of positions, a row of panels a model."""
    told = caption(
        "Norms, and distances, dot products and cosines over all pairs of distinct rows, within the table of",
        "words and within that of positions, each over its peak. Lines: the means. The axes leave out five",
        "values in a thousand at either end of each.",
        _without(surveys),
        models(surveys),
    )
    return _plate(surveys, ["positions"] * len(surveys), told)


@exhibit(
    "bert-spaces/fig14",
    title="fig10 without the untrained tail of positions",
    needs=[WEIGHED],
    reads=(),
)
def fig14(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the same with the positions that the test of the tail takes for trained."""
    tails = [survey.facts["found"]["untrained_from"] for survey in surveys]
    found = [
        f"{survey.model}: the tail begins at position {tail} and is left out."
        if tail is not None
        else f"{survey.model}: the test found no untrained tail, so all positions are in."
        for survey, tail in zip(surveys, tails, strict=True)
        if "positions" in survey.facts["found"]["tables"]
    ]
    told = caption(
        "As figure 10, without positions that the test of the table's tail takes for untrained.",
        *found,
        _without(surveys),
        models(surveys),
    )
    return _plate(surveys, [TRAINED if tail is not None else "positions" for tail in tails], told)


def _plate(surveys: Sequence[Surveyed], tables: Sequence[str], told: str) -> Plate:
    shown = [_rows(survey, table) for survey, table in zip(surveys, tables, strict=True)]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(surveys), len(PANELS), squeeze=False)
        for row, survey, bins in zip(axes, surveys, shown, strict=True):
            for ax, (metric, label) in zip(row, PANELS.items(), strict=True):
                _panel(ax, bins[bins["metric"] == metric])
                ax.set_xlabel(label)
            row[0].set_ylabel("share of the peak" if len(surveys) == 1 else one_model(survey))

    data = pd.concat([named(bins, survey.model) for survey, bins in zip(surveys, shown, strict=True)])
    return Plate(data.reset_index(drop=True), told, draw, (7.0, 0.35 + 1.75 * len(surveys)))


def _rows(survey: Surveyed, positions: str) -> pd.DataFrame:
    """Return the histograms within each table, the mean beside them."""
    bins, pairs = tables_of(survey, ["histograms", "pairs"])
    within = bins[
        bins["left"].isin(["words", positions]) & ((bins["right"] == bins["left"]) | (bins["right"] == ""))
    ]
    means = pairs[["left", "right", "metric", "n", "mean"]]
    return within.merge(means, on=["left", "right", "metric"]).reset_index(drop=True)


def _panel(ax: Axes, bins: pd.DataFrame) -> None:
    """Draw histograms over their peaks, so that half a billion pairs and a hundred thousand share a panel."""
    ends = []
    for place, (table, colour) in enumerate({"words": BLUE, "positions": VERMILLION}.items()):
        of = bins[bins["left"].isin([table, f"trained {table}"]) & np.isfinite(bins["high"] - bins["low"])]
        if not len(of):
            continue
        edges = np.append(of["low"].to_numpy(), of["high"].iloc[-1])
        share = of["count"].to_numpy() / of["count"].max()
        ax.stairs(share, edges, fill=True, color=colour, alpha=0.15)
        ax.stairs(share, edges, color=colour, lw=1.0, ls=DASHES[place], label=str(of["left"].iloc[0]))
        ends.append((edges[0], edges[-1]) if len(edges) <= FEW else _most(of, edges))
        ax.axvline(float(of["mean"].iloc[0]), c=colour, lw=0.8, ls=DASHES[place])
        name = f"{of['left'].iloc[0]}, " if ax.get_subplotspec().is_first_col() else ""  # type: ignore[union-attr]
        mean = f"{name}mean {number(float(of['mean'].iloc[0]))}"
        ax.text(0, 1.02 + 0.1 * (1 - place), mean, c=colour, fontsize=6.5, transform=ax.transAxes)
    if ends:
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.set_ylim(0, 1.05)
    ax.set_yticks([])
    ax.axhline(0, c=GREY, lw=0.5)


def _most(bins: pd.DataFrame, edges: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the bins that hold all but five values in a thousand at either side."""
    share = bins["count"].cumsum().to_numpy() / bins["count"].sum()
    first, last = np.searchsorted(share, [OUTSIDE, 1 - OUTSIDE])
    return float(edges[first]), float(edges[min(last + 1, len(edges) - 1)])


def _without(surveys: Sequence[Surveyed]) -> str:
    """Say whose positions are not in a table."""
    names = [survey.model for survey in surveys if "positions" not in survey.facts["found"]["tables"]]
    return f"{', '.join(dict.fromkeys(names))}: no table of positions." if names else ""
