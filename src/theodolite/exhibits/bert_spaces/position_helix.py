"""fig19: the path of positions in three principal components, its period, and the period along the path."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from theodolite.exhibits.bert_spaces.weights import POSITIONS, WEIGHTS, model_name
from theodolite.exhibits.drawing.axes import clean_label, write_note
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.style import BLUE, GREY, VERMILLION
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need
from theodolite.exhibits.registry import exhibit
from theodolite.measures.laboratories.periodicity import local_mean
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import format_scientific

MOST_PARTS = 4  # parts of the path whose periods the caption lists
LONGEST = 200  # longer periods are trends, and would compress the others


PERIODS = Need(
    "folders with the period along positions",
    lambda survey: "position_periods" in survey.tables,
    lambda survey: (
        f"that of {survey.model} was made by an older version; repeat it with "
        f"`theodolite weights {shlex.quote(str(survey.facts['model']['name']))} --out DIR`"
    ),
)


@exhibit(
    "bert-spaces/fig19",
    title="The helix of positions: three principal components and the period",
    needs=[WEIGHTS, POSITIONS, PERIODS],
    reads=(),
)
def fig19(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the path of positions across its axis, its spectrum with that of the null model, and its local period.

    The axis is the direction in which the mean of the path over one period moves most.
    """
    names = make_labels(surveys)
    tables = ["position_path", "position_spectrum", "position_helix", "position_components", "position_periods"]
    found = [get_tables(survey, tables) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(found), 1, squeeze=False).ravel()
        for part, name, (path, spectrum, helix, components, periods) in zip(parts, names, found, strict=True):
            grid = part.add_gridspec(2, 2, width_ratios=[1.25, 1])
            solid = part.add_subplot(grid[:, 0], projection="3d")
            _draw_path(solid, part, path, components, helix.iloc[0])
            solid.set_title(clean_label(name))
            _draw_spectrum(part.add_subplot(grid[0, 1]), spectrum, helix.iloc[0])
            _draw_local_period(part.add_subplot(grid[1, 1]), path, periods)

    caption = join_sentences(
        "Left: trained positions except position 0 on their first three principal components, seen across the "
        "axis about which they turn. Above: their power spectrum without trend, and the mean spectrum of random "
        "tables without a period. Below: positions per turn about the local mean, over two periods (line) and "
        "between changes of the period (bars).",
        *(
            describe_helix(survey, helix.iloc[0], periods)
            for survey, (_, _, helix, _, periods) in zip(surveys, found, strict=True)
        ),
    )
    data = pd.concat([add_survey_column(path, name) for name, (path, *_) in zip(names, found, strict=True)])
    return Plate(data.reset_index(drop=True), caption, draw, (7.0, 3.9 * len(found)))


def describe_helix(survey: SurveyData, helix: Any, periods: pd.DataFrame) -> str:
    """State the period, its p-value and its changes, and the share of the variance that is drawn."""
    name = model_name(survey)
    if helix["reason"]:
        return f"{name}: no period ({helix['reason']})."
    found = "period" if helix["significant"] else "no significant period; the strongest is"
    period, low, high = (format_scientific(helix[key]) for key in ("period", "low", "high"))
    p, phase = format_scientific(helix["p"], 2), format_scientific(helix["quarter"], 2)
    turns = (
        f"{format_scientific(helix['turns'])} turns about the local mean in components {helix['plane']}, on "
        f"average one in {format_scientific(helix['steps_per_turn'])} positions,"
        if np.isfinite(helix["turns"])
        else f"in components {helix['plane']} it oscillates on a line instead of turning,"
    )
    return (
        f"{name}: {found} {period} positions ({low} to {high} at half height), p = {p} over "
        f"{int(helix['surrogates'])} random tables; {turns} with a phase difference of {phase}°. "
        + _describe_changes(periods)
        + f"The three components have {helix['share']:.0%} of the variance."
    )


def _describe_changes(periods: pd.DataFrame) -> str:
    if len(periods) < 2:
        return ""
    values = [format_scientific(value) for value in periods["period"]]
    places = ", ".join(str(int(first)) for first in periods["first"].iloc[1:])
    if len(periods) > MOST_PARTS:
        ends = (format_scientific(end) for end in (periods["period"].min(), periods["period"].max()))
        return f"The period changes between {' and '.join(ends)}, at positions {places}. "
    return f"The period changes: {', then '.join(values)}, from position {places} on. "


def _draw_path(ax: Any, figure: FigureBase, path: pd.DataFrame, components: pd.DataFrame, helix: Any) -> None:
    if len(path) < 2 or "pc3" not in path:
        ax.text2D(0.5, 0.5, "too few positions", transform=ax.transAxes, ha="center", fontsize=7)
        return
    points = path[["pc1", "pc2", "pc3"]].to_numpy(np.float64)
    ax.plot(*points.T, c=GREY, lw=0.35, alpha=0.6)
    dots = ax.scatter(
        *points.T, c=path["position"].to_numpy(), cmap="viridis", s=5, depthshade=False, linewidths=0
    )
    ax.view_init(elev=12, azim=_across(points, helix["period"]))
    ax.set_box_aspect((1, 1, 1.15))
    for axis, name, share in zip((ax.xaxis, ax.yaxis, ax.zaxis), (1, 2, 3), components["share"], strict=False):
        axis.set_label_text(f"component {name} ({share:.0%})", fontsize=7)
        axis.set_major_locator(MaxNLocator(nbins=3))
    ax.tick_params(labelsize=6, pad=-1)
    figure.colorbar(dots, ax=ax, fraction=0.03, pad=0.14, label="position")


def _across(points: NDArray[np.float64], period: float) -> float:
    """Return the azimuth in degrees from which the axis of a path lies in the plane of the picture."""
    axis = local_mean(points, period if np.isfinite(period) else 1) / np.ptp(points, axis=0)  # as the box shows it
    *_, directions = np.linalg.svd(axis - axis.mean(axis=0), full_matrices=False)
    return float((np.degrees(np.arctan2(directions[0, 1], directions[0, 0])) - 90) % 180 - 180)


def _draw_local_period(ax: Axes, path: pd.DataFrame, periods: pd.DataFrame) -> None:
    ax.set(xlabel="position", ylabel="local period (positions)")
    if periods.empty:
        write_note(ax, "the path does not turn")
        return
    ax.plot(path["position"], path["local_period"], c=BLUE, lw=0.9)
    ax.hlines(periods["period"], periods["first"], periods["last"], color=VERMILLION, lw=1.6, zorder=3)
    for change in periods["first"].iloc[1:]:
        ax.axvline(change, c=GREY, lw=0.8, ls=":")
    known = path["local_period"].to_numpy(np.float64)
    high = float(np.nanquantile(known, 0.98)) if np.isfinite(known).any() else 1.0
    ax.set_ylim(0, 1.25 * max(high, float(periods["period"].max())))


def _draw_spectrum(ax: Axes, spectrum: pd.DataFrame, helix: Any) -> None:
    shown = spectrum[(spectrum["frequency"] > 0) & (spectrum["frequency"] < 0.5)]
    periods = 1 / shown["frequency"].to_numpy(np.float64)
    ax.plot(periods, shown["power"], c=BLUE, lw=1.1, label="path")
    ax.plot(periods, shown["without_period"], c=GREY, lw=1.1, ls="--", label="random, mean")
    if np.isfinite(helix["period"]) and helix["significant"]:
        ax.axvspan(helix["low"], helix["high"], color=VERMILLION, alpha=0.12, lw=0)
        ax.axvline(
            helix["period"], c=VERMILLION, lw=0.9, ls=":", label=f"period {format_scientific(helix['period'])}"
        )
    ax.set(xscale="log", yscale="log", xlabel="period (positions)", ylabel="share of power")
    ax.set_xlim(2, min(LONGEST, float(periods.max())) if len(periods) else LONGEST)
    ticks = [tick for tick in (2, 5, 10, 20, 50, 100, 200) if tick <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.legend(loc="best", framealpha=0.8, frameon=True, edgecolor="none")
