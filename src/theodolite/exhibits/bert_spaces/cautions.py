"""fig1 and fig2: the Hopf link and what PCA, t-SNE and UMAP make of it; fig3: dimension curves of three cubes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLACK, BLUE, VERMILLION, look
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed

CAUTIONS = of_laboratory("cautions", "theodolite cautions --out DIR")
LOOKS: dict[str, tuple[str, str]] = {"first circle": (BLUE, "o"), "second circle": (VERMILLION, "^")}
ALL = "all three"


@exhibit("bert-spaces/fig1", title="The Hopf link and its PCA", needs=[CAUTIONS], reads=())
def fig1(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw two linked circles in space, and the plane of their first two principal components."""
    points, shares, facts = tables_of(surveys[0], ["hopf", "hopf_shares", "hopf_facts"])
    space, flat = points[points["method"] == "space"], points[points["method"] == "PCA"]

    def draw(figure: FigureBase) -> None:
        left, right = figure.subfigures(1, 2, squeeze=False).ravel()
        solid: Any = left.add_subplot(projection="3d")
        for name, (colour, _) in LOOKS.items():
            of = space[space["circle"] == name]
            ring = pd.concat([of, of.iloc[:1]])
            solid.plot(ring["x"], ring["y"], ring["z"], c=colour, lw=2.2, label=name)
        solid.view_init(elev=24, azim=-62)
        solid.set_box_aspect((1.45, 1, 0.9))
        solid.set(xlabel="x", ylabel="y", title="in three dimensions")
        solid.locator_params(nbins=4)
        solid.legend(loc="upper left")
        ax = right.subplots()
        _circles(ax, flat)
        ax.set_title("its first two principal components")
        ax.set_xlabel(f"component 1 ({shares['share'].iloc[0]:.1%})")
        ax.set_ylabel(f"component 2 ({shares['share'].iloc[1]:.1%})")

    linked = abs(float(facts.loc[facts["method"] == "space", "linking_number"].iloc[0]))
    told = caption(
        f"Two circles linked once (linking number {linked:.3f}) never come nearer to each other than",
        f"{facts.loc[facts['method'] == 'space', 'gap'].iloc[0]:.2f} of a radius; in the plane that keeps most of "
        "their variance one is seen edge-on and seems to cross the other.",
    )
    return Plate(points[points["method"].isin(["space", "PCA"])], told, draw, (7.0, 3.0))


@exhibit("bert-spaces/fig2", title="The t-SNE and UMAP of the Hopf link", needs=[CAUTIONS], reads=())
def fig2(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the Hopf link by t-SNE at several perplexities and by UMAP with several neighbourhoods."""
    points, facts = tables_of(surveys[0], ["hopf", "hopf_facts"])
    flat = points[points["method"].isin(["t-SNE", "UMAP"])]
    words = {"t-SNE": "t-SNE, perplexity {}", "UMAP": "UMAP, {} neighbours"}

    def draw(figure: FigureBase) -> None:
        panels = list(flat.groupby(["method", "setting"], sort=False))
        axes = figure.subplots(2, -(-len(panels) // 2), squeeze=False).ravel()
        for ax, ((method, setting), of) in zip(axes, panels, strict=True):
            _circles(ax, of, size=5)
            ax.set_title(words[str(method)].format(setting))
            ax.set_xticks([])
            ax.set_yticks([])
        axes[0].legend(loc="best", markerscale=1.6, handletextpad=0.1)

    round_ = facts[facts["method"].isin(["t-SNE", "UMAP"])]
    least, most = (
        round_[["roundness_1", "roundness_2"]].min().min(),
        round_[["roundness_1", "roundness_2"]].max().max(),
    )
    told = caption(
        f"The Hopf link ({int(facts['n'].iloc[0])} points), seed {int(facts['seed'].iloc[0])}. Where both "
        "methods part the circles they do what no plane does in space; none shows that they are linked, and some "
        "settings tear or cross a circle:",
        f"least over largest distance from a circle's middle, 1 in space, is here {least:.2f} to {most:.2f}.",
        "Distances and axes mean nothing.",
    )
    return Plate(flat, told, draw, (7.0, 4.4))


@exhibit("bert-spaces/fig3", title="PCA dimension curves of three cubes", needs=[CAUTIONS], reads=())
def fig3(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw how much of the variance k components hold, for each cube and for all together."""
    (curves,) = tables_of(surveys[0], ["cubes"])

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        for number, (name, of) in enumerate(curves.groupby("cube", sort=False)):
            line = look(number)
            colour, width = (BLACK, 1.8) if name == ALL else (line.colour, 1.1)
            label = f"{name} ({int(of['n'].iloc[0]):,} points)"
            marks: dict[str, Any] = {"marker": line.marker, "ms": 4, "ls": line.dash, "lw": width}
            ax.plot(of["components"], of["cumulative"], c=colour, label=label, **marks)
        ax.axhline(1, c=BLACK, lw=0.5)
        ax.set(xlabel="principal components kept", ylabel="share of variance held", ylim=(0, 1.03))
        ax.set_xticks(range(1, int(curves["components"].max()) + 1))
        ax.legend(loc="lower right")

    off = float((curves["cumulative"] - curves["exact"]).abs().max())
    told = caption(
        "Unit cubes of 7, 8 and 9 dimensions in 10, the first moved away, the second turned at random. Each alone "
        "rises straight and stops at its own dimension; the curve of all three tells of none of them, because "
        "what varies most is where they stand.",
        f"Points drawn at random lie within {off:.3f} of the exact curves.",
    )
    return Plate(curves, told, draw, (5.0, 3.0))


def _circles(ax: Axes, points: pd.DataFrame, size: float = 9) -> None:
    for name, (colour, marker) in LOOKS.items():
        of = points[points["circle"] == name]
        ax.scatter(of["x"], of["y"], s=size, c=colour, marker=marker, linewidths=0, label=name)
    ax.set_aspect("equal", adjustable="datalim")
