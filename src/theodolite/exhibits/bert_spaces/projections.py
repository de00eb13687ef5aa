"""fig11 and fig18: words and positions by PCA, t-SNE and UMAP, and dimension curves."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.position_table import describe_tail
from theodolite.exhibits.bert_spaces.weights import POSITIONS, WEIGHTS, model_name
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.style import BLACK, BLUE, DASHES, GREY, VERMILLION
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels

SPACE_STYLES = {"words": (BLUE, "o", 2.5), "positions": (VERMILLION, "^", 6.0)}
METHODS = ("PCA", "t-SNE", "UMAP")
PROJECTED = Need(
    "folders of `theodolite weights` made without --no-projections",
    lambda survey: "projection_facts" in survey.tables,
    lambda survey: (
        f"that of {survey.model} has no projections; make them with "
        f"`theodolite weights {shlex.quote(str(survey.facts['model']['name']))} --out DIR`"
    ),
    reason=lambda survey: "no projections",
)


@exhibit(
    "bert-spaces/fig11",
    title="PCA, t-SNE, UMAP and dimension curves of input and positional embeddings",
    needs=[WEIGHTS, PROJECTED],
    reads=(),
)
def fig11(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw words and positions on one plane, and the share of variance in the first components of each table."""
    names = make_labels(surveys)
    found = [get_tables(survey, ["projections", "dimension_curves", "projection_facts"]) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(found) * 2, 2, squeeze=False).reshape(len(found), 4)
        for row, name, (points, curves, facts) in zip(axes, names, found, strict=True):
            _draw_curves(row[1], curves)
            for ax, method in zip((row[0], row[2], row[3]), METHODS, strict=True):
                _draw_cloud(ax, points[points["method"] == method])
                _label_panel(ax, method, facts[facts["table"] == "projections"])
            row[0].set_title(
                f"{clean_label(name)}: {row[0].get_title()}" if len(found) > 1 else row[0].get_title()
            )
            row[0].legend(loc="best", markerscale=2, handletextpad=0.1)

    caption = join_sentences(
        "Input and positional embeddings on one plane, and the share of the variance of each table in its first "
        "principal components. The components are computed from all rows. Points drawn:",
        "; ".join(_describe_counts(survey, facts) for survey, (_, _, facts) in zip(surveys, found, strict=True))
        + ".",
        "Distances have no meaning in t-SNE and UMAP.",
    )
    data = pd.concat([add_survey_column(points, name) for name, (points, _, _) in zip(names, found, strict=True)])
    return Plate(data.reset_index(drop=True), caption, draw, (7.0, 5.4 * len(found)))


@exhibit(
    "bert-spaces/fig18",
    title="t-SNE and UMAP of positions, with and without the untrained positions",
    needs=[WEIGHTS, POSITIONS, PROJECTED],
    reads=(),
)
def fig18(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw positions coloured by number and joined in their order, and again without the untrained ones."""
    names = make_labels(surveys)
    found = [get_tables(survey, ["position_projections"])[0] for survey in surveys]
    rows = [
        (name, kind, of) for name, table in zip(names, found, strict=True) for kind, of in table.groupby("rows")
    ]
    longest = max(float(table["row"].max()) for table in found)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(rows), 2, squeeze=False)
        scale = ScalarMappable(Normalize(0, longest), "viridis")
        for line, (name, kind, of) in zip(axes, rows, strict=True):
            for ax, method in zip(line, ("t-SNE", "UMAP"), strict=True):
                _draw_positions(ax, of[of["method"] == method], scale)
                without = ", trained positions" if kind == "trained" else ""
                ax.set_title(f"{clean_label(name, 30)}, {method}{without}")
        figure.colorbar(scale, ax=axes, fraction=0.03, label="position")

    caption = join_sentences(
        "Positions, coloured by number. Lines join consecutive positions; a long line is a place where the method "
        "tears the sequence of positions apart. Crosses: untrained positions. Distances and axes have no meaning.",
        *(describe_tail(survey) for survey in surveys),
    )
    data = pd.concat(
        [add_survey_column(table, name) for name, table in zip(names, found, strict=True)], ignore_index=True
    )
    return Plate(data, caption, draw, (7.0, 3.0 * len(rows)))


def _draw_cloud(ax: Axes, points: pd.DataFrame) -> None:
    for space, (colour, marker, size) in SPACE_STYLES.items():
        of = points[points["space"] == space]
        if len(of):
            dots: dict[str, Any] = {"s": size, "c": colour, "marker": marker, "linewidths": 0, "alpha": 0.6}
            ax.scatter(of["x"], of["y"], label=space, rasterized=len(of) > 3000, **dots)
    if not len(points):
        ax.text(0.5, 0.5, "too few points", transform=ax.transAxes, ha="center", fontsize=7)


def _label_panel(ax: Axes, method: str, facts: pd.DataFrame) -> None:
    of = facts[facts["method"] == method].iloc[0]
    if method == "PCA":
        ax.set(xlabel=f"component 1 ({of['share_1']:.1%})", ylabel=f"component 2 ({of['share_2']:.1%})")
    else:
        ax.set_xticks([])
        ax.set_yticks([])
    ax.set_title(f"{method}{', ' + of['settings'] if of['settings'] else ''}")


def _draw_curves(ax: Axes, curves: pd.DataFrame) -> None:
    for place, (space, of) in enumerate(curves.groupby("space", sort=False)):
        colour = SPACE_STYLES[str(space)][0]
        label = f"{space} ({int(of['n'].iloc[0]):,})"
        ax.plot(of["components"], of["cumulative"], c=colour, ls=DASHES[place], lw=1.4, label=label)
    ax.axhline(1, c=BLACK, lw=0.5)
    ax.set(xlabel="principal components", ylabel="share of variance", ylim=(0, 1.03), title="dimension curves")
    ax.legend(loc="lower right")


def _draw_positions(ax: Axes, points: pd.DataFrame, scale: ScalarMappable) -> None:
    ordered = points.sort_values("row")
    ax.plot(ordered["x"], ordered["y"], c=GREY, lw=0.5, zorder=1)
    for untrained, marker, size in ((False, "o", 10), (True, "x", 14)):
        of = points[points["untrained"] == untrained]
        if len(of):
            colours = scale.to_rgba(of["row"].to_numpy())
            ax.scatter(of["x"], of["y"], s=size, c=colours, marker=marker, linewidths=0.8 if untrained else 0)
    ax.set_xticks([])
    ax.set_yticks([])


def _describe_counts(survey: SurveyData, facts: pd.DataFrame) -> str:
    rows = facts[(facts["table"] == "projections") & facts["method"].isin(["PCA"])]
    counts = [
        f"{int(n):,} of {int(of):,} {space}"
        for space, n, of in zip(rows["space"], rows["n"], rows["of"], strict=True)
    ]
    return f"{model_name(survey)}: {', '.join(counts)}, seed {int(rows['seed'].iloc[0])}"
