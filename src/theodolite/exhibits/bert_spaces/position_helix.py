"""fig19: the path of positions in three dimensions, and the period at which it turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.weighed import POSITIONS, WEIGHED, one_model
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLUE, GREY, VERMILLION
from theodolite.exhibits.text import number, plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

LONGEST = 200  # longer waves than this are trends, and would squeeze the others


@exhibit(
    "bert-spaces/fig19",
    title="The helix of positions: 3-D PCA and its period",
    needs=[WEIGHED, POSITIONS],
    reads=(),
)
def fig19(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the path of positions in its three leading components, and its spectrum beside the null's."""
    names = labels(surveys)
    wanted = ["position_path", "position_spectrum", "position_helix", "position_components"]
    found = [tables_of(survey, wanted) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(found), 1, squeeze=False).ravel()
        for part, name, (path, spectrum, helix, components) in zip(parts, names, found, strict=True):
            grid = part.add_gridspec(1, 2, width_ratios=[1.25, 1])
            solid = part.add_subplot(grid[0], projection="3d")
            _path(solid, part, path, components)
            solid.set_title(plain(name))
            _spectrum(part.add_subplot(grid[1]), spectrum, helix.iloc[0])

    told = caption(
        "The path of the trained positions but position 0 in its three leading principal components, and the "
        "power of its waves there (trend removed) beside the mean over smooth random tables without a period.",
        *(helix_told(survey, helix.iloc[0]) for survey, (_, _, helix, _) in zip(surveys, found, strict=True)),
    )
    data = pd.concat([named(path, name) for name, (path, _, _, _) in zip(names, found, strict=True)])
    return Plate(data.reset_index(drop=True), told, draw, (7.0, 3.6 * len(found)))


def helix_told(survey: Surveyed, helix: Any) -> str:
    """Say what period was found, how sure that is, and how much of the variance the picture holds."""
    name = one_model(survey)
    if helix["reason"]:
        return f"{name}: no period ({helix['reason']})."
    found = "a period" if helix["significant"] else "no significant period; the strongest is"
    return (
        f"{name}: {found} of {number(helix['period'])} positions "
        f"({number(helix['low'])} to {number(helix['high'])} at half its height), p = {number(helix['p'], 2)} "
        f"over {int(helix['surrogates'])} such tables; "
        f"{number(helix['turns'])} turns in components {helix['plane']}, one in {number(helix['steps_per_turn'])} "
        f"positions on average, the two {number(helix['quarter'], 2)}° apart. The three hold {helix['share']:.0%} "
        "of the variance."
    )


def _path(ax: Any, figure: FigureBase, path: pd.DataFrame, components: pd.DataFrame) -> None:
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
        axis.set_major_locator(_three())
    ax.tick_params(labelsize=6, pad=-1)
    figure.colorbar(dots, ax=ax, fraction=0.03, pad=0.14, label="position")


def _spectrum(ax: Axes, spectrum: pd.DataFrame, helix: Any) -> None:
    shown = spectrum[(spectrum["frequency"] > 0) & (spectrum["frequency"] < 0.5)]
    periods = 1 / shown["frequency"].to_numpy(np.float64)
    ax.plot(periods, shown["power"], c=BLUE, lw=1.1, label="path")
    ax.plot(periods, shown["without_period"], c=GREY, lw=1.1, ls="--", label="mean without a period")
    if np.isfinite(helix["period"]) and helix["significant"]:
        ax.axvspan(helix["low"], helix["high"], color=VERMILLION, alpha=0.12, lw=0)
        ax.axvline(helix["period"], c=VERMILLION, lw=0.9, ls=":", label=f"period {number(helix['period'])}")
    ax.set(xscale="log", yscale="log", xlabel="period (positions)", ylabel="share of power")
    ax.set_xlim(2, min(LONGEST, float(periods.max())) if len(periods) else LONGEST)
    ticks = [tick for tick in (2, 5, 10, 20, 50, 100, 200) if tick <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.legend(loc="lower right")


def _three() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=3)
