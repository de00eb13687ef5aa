"""fig11: words and positions by PCA, t-SNE and UMAP, and dimension curves; fig18: positions alone, tail marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.position_heat import tail_told
from theodolite.exhibits.bert_spaces.weighed import POSITIONS, WEIGHED, one_model
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import Need
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLACK, BLUE, DASHES, VERMILLION
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

LOOKS = {"words": (BLUE, "o", 2.5), "positions": (VERMILLION, "^", 6.0)}
METHODS = ("PCA", "t-SNE", "UMAP")
PROJECTED = Need(
    "projections (`theodolite weights` without --no-projections)",
    lambda survey: "projection_facts" in survey.tables,
    lambda survey: f"{survey.model} has none; `theodolite weights {survey.model} --out DIR` makes them",
    left_out=lambda survey: "without projections",
)


@exhibit(
    "bert-spaces/fig11",
    title="PCA, t-SNE, UMAP and dimension curves of input and positional embeddings",
    needs=[WEIGHED, PROJECTED],
    reads=(),
)
def fig11(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw words and positions flattened together, and how much of each table's variance k components hold."""
    names = labels(surveys)
    found = [tables_of(survey, ["projections", "dimension_curves", "projection_facts"]) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(found) * 2, 2, squeeze=False).reshape(len(found), 4)
        for row, name, (points, curves, facts) in zip(axes, names, found, strict=True):
            _curves(row[1], curves)
            for ax, method in zip((row[0], row[2], row[3]), METHODS, strict=True):
                _cloud(ax, points[points["method"] == method])
                _title(ax, method, facts[facts["table"] == "projections"])
            row[0].set_title(f"{plain(name)}: {row[0].get_title()}" if len(found) > 1 else row[0].get_title())
            row[0].legend(loc="best", markerscale=2, handletextpad=0.1)

    told = caption(
        "Input and positional embeddings in one plane, and the share of each table's variance that its leading "
        "components hold. Components are of all rows; points drawn:",
        "; ".join(_counted(survey, facts) for survey, (_, _, facts) in zip(surveys, found, strict=True)) + ".",
        "Distances mean nothing in t-SNE and UMAP.",
    )
    data = pd.concat([named(points, name) for name, (points, _, _) in zip(names, found, strict=True)])
    return Plate(data.reset_index(drop=True), told, draw, (7.0, 5.4 * len(found)))


@exhibit(
    "bert-spaces/fig18",
    title="t-SNE and UMAP of positions, the untrained tail marked",
    needs=[WEIGHED, POSITIONS, PROJECTED],
    reads=(),
)
def fig18(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw positions alone, coloured by number, their untrained tail as crosses, and again without it."""
    names = labels(surveys)
    found = [tables_of(survey, ["position_projections"])[0] for survey in surveys]
    rows = [
        (name, kind, of) for name, table in zip(names, found, strict=True) for kind, of in table.groupby("rows")
    ]
    longest = max(float(table["row"].max()) for table in found)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(rows), 2, squeeze=False)
        scale = ScalarMappable(Normalize(0, longest), "viridis")
        for line, (name, kind, of) in zip(axes, rows, strict=True):
            for ax, method in zip(line, ("t-SNE", "UMAP"), strict=True):
                _numbered(ax, of[of["method"] == method], scale)
                without = ", without the tail" if kind == "trained" else ""
                ax.set_title(f"{plain(name, 30)}, {method}{without}")
        figure.colorbar(scale, ax=axes, fraction=0.03, label="position")

    told = caption(
        "Positions alone, by number; crosses: untrained. Distances mean nothing; lines of neighbours do.",
        *(tail_told(survey).replace("dashed; ", "") for survey in surveys),
    )
    data = pd.concat([named(table, name) for name, table in zip(names, found, strict=True)], ignore_index=True)
    return Plate(data, told, draw, (7.0, 3.0 * len(rows)))


def _cloud(ax: Axes, points: pd.DataFrame) -> None:
    for space, (colour, marker, size) in LOOKS.items():
        of = points[points["space"] == space]
        if len(of):
            dots: dict[str, Any] = {"s": size, "c": colour, "marker": marker, "linewidths": 0, "alpha": 0.6}
            ax.scatter(of["x"], of["y"], label=space, rasterized=len(of) > 3000, **dots)
    if not len(points):
        ax.text(0.5, 0.5, "too few points", transform=ax.transAxes, ha="center", fontsize=7)


def _title(ax: Axes, method: str, facts: pd.DataFrame) -> None:
    of = facts[facts["method"] == method].iloc[0]
    if method == "PCA":
        ax.set(xlabel=f"component 1 ({of['share_1']:.1%})", ylabel=f"component 2 ({of['share_2']:.1%})")
    else:
        ax.set_xticks([])
        ax.set_yticks([])
    ax.set_title(f"{method}{', ' + of['settings'] if of['settings'] else ''}")


def _curves(ax: Axes, curves: pd.DataFrame) -> None:
    for place, (space, of) in enumerate(curves.groupby("space", sort=False)):
        colour = LOOKS[str(space)][0]
        label = f"{space} ({int(of['n'].iloc[0]):,})"
        ax.plot(of["components"], of["cumulative"], c=colour, ls=DASHES[place], lw=1.4, label=label)
    ax.axhline(1, c=BLACK, lw=0.5)
    ax.set(xlabel="principal components kept", ylabel="share of variance held", ylim=(0, 1.03), title="dimension")
    ax.legend(loc="lower right")


def _numbered(ax: Axes, points: pd.DataFrame, scale: ScalarMappable) -> None:
    for untrained, marker, size in ((False, "o", 10), (True, "x", 14)):
        of = points[points["untrained"] == untrained]
        if len(of):
            colours = scale.to_rgba(of["row"].to_numpy())
            ax.scatter(of["x"], of["y"], s=size, c=colours, marker=marker, linewidths=0.8 if untrained else 0)
    ax.set_xticks([])
    ax.set_yticks([])


def _counted(survey: Surveyed, facts: pd.DataFrame) -> str:
    rows = facts[(facts["table"] == "projections") & facts["method"].isin(["PCA"])]
    told = [
        f"{int(n):,} of {int(of):,} {space}"
        for space, n, of in zip(rows["space"], rows["n"], rows["of"], strict=True)
    ]
    return f"{one_model(survey)}: {', '.join(told)}, seed {int(rows['seed'].iloc[0])}"
