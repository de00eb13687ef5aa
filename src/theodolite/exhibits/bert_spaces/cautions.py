"""fig1, fig2, fig3 and fig6: projections of the Hopf link, dimension curves of cubes, sinusoidal encodings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.heatmap import draw_heat
from theodolite.exhibits.drawing.style import BLACK, BLUE, VERMILLION, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables

CAUTIONS = require_laboratory("cautions", "theodolite cautions --out DIR")
CIRCLE_STYLES: dict[str, tuple[str, str]] = {"first circle": (BLUE, "o"), "second circle": (VERMILLION, "^")}
ALL = "all three"


@exhibit("bert-spaces/fig1", title="Two linked circles (the Hopf link) and their PCA", needs=[CAUTIONS], reads=())
def fig1(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw two linked circles in three dimensions, and their first two principal components."""
    points, shares, facts = get_tables(surveys[0], ["hopf", "hopf_shares", "hopf_facts"])
    space, flat = points[points["method"] == "space"], points[points["method"] == "PCA"]

    def draw(figure: FigureBase) -> None:
        left, right = figure.subfigures(1, 2, squeeze=False).ravel()
        solid: Any = left.add_subplot(projection="3d")
        for name, (colour, _) in CIRCLE_STYLES.items():
            of = space[space["circle"] == name]
            ring = pd.concat([of, of.iloc[:1]])
            solid.plot(ring["x"], ring["y"], ring["z"], c=colour, lw=2.2, label=name)
        solid.view_init(elev=24, azim=-62)
        solid.set_box_aspect((1.45, 1, 0.9))
        solid.set(xlabel="x", ylabel="y", title="three dimensions")
        solid.locator_params(nbins=4)
        solid.legend(loc="upper left")
        ax = right.subplots()
        _draw_circles(ax, flat)
        ax.set_title("first two principal components")
        ax.set_xlabel(f"component 1 ({shares['share'].iloc[0]:.1%})")
        ax.set_ylabel(f"component 2 ({shares['share'].iloc[1]:.1%})")

    linked = abs(float(facts.loc[facts["method"] == "space", "linking_number"].iloc[0]))
    caption = join_sentences(
        f"Two linked circles (linking number {linked:.3f}) whose distance is at least",
        f"{facts.loc[facts['method'] == 'space', 'gap'].iloc[0]:.2f} of a radius. In the plane of the first two "
        "principal components one is seen from the side and seems to cross the other.",
    )
    return Plate(points[points["method"].isin(["space", "PCA"])], caption, draw, (7.0, 3.0))


@exhibit("bert-spaces/fig2", title="t-SNE and UMAP of the Hopf link", needs=[CAUTIONS], reads=())
def fig2(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the Hopf link by t-SNE with several perplexities and by UMAP with several numbers of neighbours."""
    points, facts = get_tables(surveys[0], ["hopf", "hopf_facts"])
    flat = points[points["method"].isin(["t-SNE", "UMAP"])]
    titles = {"t-SNE": "t-SNE, perplexity {}", "UMAP": "UMAP, {} neighbours"}

    def draw(figure: FigureBase) -> None:
        panels = list(flat.groupby(["method", "setting"], sort=False))
        axes = figure.subplots(2, -(-len(panels) // 2), squeeze=False).ravel()
        for ax, ((method, setting), of) in zip(axes, panels, strict=True):
            _draw_circles(ax, of, size=5)
            ax.set_title(titles[str(method)].format(setting))
            ax.set_xticks([])
            ax.set_yticks([])
        axes[0].legend(loc="best", markerscale=1.6, handletextpad=0.1)

    projected = facts[facts["method"].isin(["t-SNE", "UMAP"])]
    least, most = (
        projected[["roundness_1", "roundness_2"]].min().min(),
        projected[["roundness_1", "roundness_2"]].max().max(),
    )
    caption = join_sentences(
        f"The Hopf link ({int(facts['n'].iloc[0])} points), seed {int(facts['seed'].iloc[0])}. Both "
        "methods can separate the circles, which no plane in space does. None shows that they are linked, and "
        "some settings break or cross a circle: the ratio of the smallest to the largest distance from the centre "
        f"of a circle, 1 in space, is {least:.2f} to {most:.2f} here.",
        "Distances and axes have no meaning.",
    )
    return Plate(flat, caption, draw, (7.0, 4.4))


@exhibit("bert-spaces/fig3", title="PCA dimension curves of three cubes", needs=[CAUTIONS], reads=())
def fig3(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the share of the variance in the first k components, for each cube and for all together."""
    (curves,) = get_tables(surveys[0], ["cubes"])

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        for number, (name, of) in enumerate(curves.groupby("cube", sort=False)):
            line = get_line_style(number)
            colour, width = (BLACK, 1.8) if name == ALL else (line.colour, 1.1)
            label = f"{name} ({int(of['n'].iloc[0]):,} points)"
            marks: dict[str, Any] = {"marker": line.marker, "ms": 4, "ls": line.dash, "lw": width}
            ax.plot(of["components"], of["cumulative"], c=colour, label=label, **marks)
        ax.axhline(1, c=BLACK, lw=0.5)
        ax.set(xlabel="principal components", ylabel="share of variance", ylim=(0, 1.03))
        ax.set_xticks(range(1, int(curves["components"].max()) + 1))
        ax.legend(loc="lower right")

    deviation = float((curves["cumulative"] - curves["exact"]).abs().max())
    caption = join_sentences(
        "Unit cubes of 7, 8 and 9 dimensions in 10 dimensions; the first is moved away and the second is rotated "
        "at random. The curve of a single cube is straight and ends at its dimension. The curve of all three "
        "shows none of these dimensions, because the distance between the cubes dominates the variance.",
        f"The sampled points are within {deviation:.3f} of the exact curves.",
    )
    return Plate(curves, caption, draw, (5.0, 3.0))


def _draw_circles(ax: Axes, points: pd.DataFrame, size: float = 9) -> None:
    for name, (colour, marker) in CIRCLE_STYLES.items():
        of = points[points["circle"] == name]
        ax.scatter(of["x"], of["y"], s=size, c=colour, marker=marker, linewidths=0, label=name)
    ax.set_aspect("equal", adjustable="datalim")


@exhibit("bert-spaces/fig6", title="Sinusoidal encodings and their cosines", needs=[CAUTIONS], reads=())
def fig6(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the encodings of Vaswani et al., their cosines, and the cosines by the formula of the thesis."""
    values, cosines = get_tables(surveys[0], ["sinusoid", "sinusoid_cosines"])

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, 3, squeeze=False, width_ratios=[1.5, 1, 1]).ravel()
        draw_heat(axes[0], values, "position", "coordinate", "value", limit=1.0)
        axes[0].set_title("encodings")
        draw_heat(axes[1], cosines, "position", "other", "cosine", limit=1.0)
        axes[1].set_title(r"cosines, exponent $2\lfloor k/2\rfloor/d$")
        image = draw_heat(axes[2], cosines, "position", "other", "cosine_2k", limit=1.0)
        axes[2].set_title("cosines, exponent $2k/d$")
        for ax in axes[1:]:
            ax.set_xlabel("position")
        figure.colorbar(image, ax=axes[2], fraction=0.06)

    positions, dim = int(values["position"].max()) + 1, int(values["coordinate"].max()) + 1
    caption = join_sentences(
        f"Sinusoidal encodings of {positions} positions in {dim} dimensions, with the exponent 2⌊k/2⌋/d of "
        "Vaswani et al.: their cosines depend only on the distance between two positions. With the exponent "
        "2k/512 that the thesis prints, no sine and cosine share a frequency, and cosines also depend on the "
        "positions (right).",
    )
    return Plate(cosines, caption, draw, (7.0, 2.4))
