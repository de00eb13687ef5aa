"""fig19: the path of positions in three principal components, and its period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.bert_spaces.weights import POSITIONS, WEIGHTS, model_name
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.style import BLUE, GREY, VERMILLION
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import format_scientific

LONGEST = 200  # longer periods are trends, and would compress the others


@exhibit(
    "bert-spaces/fig19",
    title="The helix of positions: three principal components and the period",
    needs=[WEIGHTS, POSITIONS],
    reads=(),
)
def fig19(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the path of positions in its first three components, and its spectrum with that of the null model."""
    names = make_labels(surveys)
    tables = ["position_path", "position_spectrum", "position_helix", "position_components"]
    found = [get_tables(survey, tables) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(found), 1, squeeze=False).ravel()
        for part, name, (path, spectrum, helix, components) in zip(parts, names, found, strict=True):
            grid = part.add_gridspec(1, 2, width_ratios=[1.25, 1])
            solid = part.add_subplot(grid[0], projection="3d")
            _draw_path(solid, part, path, components)
            solid.set_title(clean_label(name))
            _draw_spectrum(part.add_subplot(grid[1]), spectrum, helix.iloc[0])

    caption = join_sentences(
        "Left: trained positions except position 0 on their first three principal components. Right: their power "
        "spectrum without trend, and the mean spectrum of smooth random tables without a period.",
        *(describe_helix(survey, helix.iloc[0]) for survey, (_, _, helix, _) in zip(surveys, found, strict=True)),
    )
    data = pd.concat([add_survey_column(path, name) for name, (path, _, _, _) in zip(names, found, strict=True)])
    return Plate(data.reset_index(drop=True), caption, draw, (7.0, 3.6 * len(found)))


def describe_helix(survey: SurveyData, helix: Any) -> str:
    """State the period, its p-value, and the share of the variance that is drawn."""
    name = model_name(survey)
    if helix["reason"]:
        return f"{name}: no period ({helix['reason']})."
    found = "period" if helix["significant"] else "no significant period; the strongest is"
    period, low, high = (format_scientific(helix[key]) for key in ("period", "low", "high"))
    turns, per_turn = format_scientific(helix["turns"]), format_scientific(helix["steps_per_turn"])
    p, phase = format_scientific(helix["p"], 2), format_scientific(helix["quarter"], 2)
    return (
        f"{name}: {found} {period} positions ({low} to {high} at half height), p = {p} over "
        f"{int(helix['surrogates'])} random tables; {turns} turns in components {helix['plane']}, on average one "
        f"in {per_turn} positions, with a phase difference of {phase}°. The three components have "
        f"{helix['share']:.0%} of the variance."
    )


def _draw_path(ax: Any, figure: FigureBase, path: pd.DataFrame, components: pd.DataFrame) -> None:
    if len(path) < 2 or "pc3" not in path:
        ax.text2D(0.5, 0.5, "too few positions", transform=ax.transAxes, ha="center", fontsize=7)
        return
    axes = [path[f"pc{number}"].to_numpy() for number in (1, 2, 3)]
    ax.plot(*axes, c=GREY, lw=0.35, alpha=0.6)
    dots = ax.scatter(*axes, c=path["position"].to_numpy(), cmap="viridis", s=5, depthshade=False, linewidths=0)
    ax.view_init(elev=22, azim=-55)
    ax.set_box_aspect((1, 1, 1.15))
    for axis, name, share in zip((ax.xaxis, ax.yaxis, ax.zaxis), (1, 2, 3), components["share"], strict=False):
        axis.set_label_text(f"component {name} ({share:.0%})", fontsize=7)
        axis.set_major_locator(MaxNLocator(nbins=3))
    ax.tick_params(labelsize=6, pad=-1)
    figure.colorbar(dots, ax=ax, fraction=0.03, pad=0.14, label="position")


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
    ax.legend(loc="lower right")
