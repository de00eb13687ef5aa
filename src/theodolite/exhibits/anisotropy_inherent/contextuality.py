"""contextuality: self-similarity, intra-sentence similarity and explained variance, with published values."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing.captions import compose_layer_caption
from theodolite.exhibits.drawing.layer_lines import draw_line, format_layer_axis
from theodolite.exhibits.drawing.panels import legend_columns, legend_inches, solid_handles
from theodolite.exhibits.drawing.style import GREY, PALE, LineStyle, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import CONTEXTUALITY
from theodolite.exhibits.registry import exhibit
from theodolite.studies.anisotropy.layers import tabulate_layers
from theodolite.studies.anisotropy.published import CITED, published_figures
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, make_labels

PANELS = {
    "self_similarity": "self-similarity",
    "intra_similarity": "intra-sentence similarity",
    "mev": "maximum explainable variance",
}
PUBLISHED_COLUMNS = {
    "self_similarity": ("cosine_baseline", ":"),
    "intra_similarity": ("intra_similarity", "-"),
    "intra_similarity_adjusted": ("intra_similarity_adjusted", "--"),
    "mev": ("mev_baseline", ":"),
}
"""The published column for each of ours, and its dash. Dotted: the baseline that is subtracted."""
COLUMNS = [name + ending for name in PANELS for ending in ("", "_adjusted")]
MARKERS = {"BERT": "", "GPT-2": "x"}


@exhibit(
    "anisotropy-inherent/contextuality",
    title="Self-similarity, intra-sentence similarity and explained variance by layer, with published values",
    needs=[CONTEXTUALITY],
    options=("population", "depth"),
    reads=("layers",),
)
def contextuality(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw three measures of contextuality by layer, with and without the adjustment for anisotropy."""
    names, theirs = make_labels(surveys), published_figures()
    tables = [tabulate_layers(s, choice.population, COLUMNS, name) for s, name in zip(surveys, names, strict=True)]
    x = "depth" if choice.depth == "normalised" else "layer"

    def draw(figure: FigureBase) -> None:
        for ax, (column, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
            _draw_published(ax, theirs, column, x)
            for place, table in enumerate(tables):
                line = get_line_style(place)
                draw_line(ax, table, column, line, x=x, ls="-")
                draw_line(ax, table, f"{column}_adjusted", line, x=x, ls="--", lw=0.9, ms=2.2)
            format_layer_axis(ax, tables, column, x)
            ax.set_title(title)
        figure.legend(handles=solid_handles(names), loc="outside upper center", ncols=legend_columns(names, 7.0))
        figure.legend(handles=_handles(), loc="outside lower center", ncols=5)

    caption = compose_layer_caption(
        surveys,
        choice,
        tables,
        "self_similarity",
        "Measures of contextuality by layer. Solid: as measured. Dashed: minus the value that anisotropy alone "
        "gives.",
        f"Grey: BERT and GPT-2 from the repository of {CITED}: intra-sentence similarity, and for the other two",
        "the baseline that is subtracted (dotted): mean cosine of random words, and their variance along the",
        "first direction without centring.",
    )
    data = pd.concat([*tables, theirs.assign(survey=theirs["survey"] + f", {CITED}")], ignore_index=True)
    return Plate(data, caption, draw, (7.0, 2.5 + legend_inches(names, 7.0)))


def _draw_published(ax: Axes, theirs: pd.DataFrame, column: str, x: str) -> None:
    ax.axhline(0, c=PALE, lw=0.5, zorder=0)
    for name in (column, f"{column}_adjusted"):
        if name in PUBLISHED_COLUMNS:
            source, dash = PUBLISHED_COLUMNS[name]
            for model, table in theirs.groupby("survey"):
                line = LineStyle(GREY, MARKERS[str(model)], dash)
                draw_line(ax, table, source, line, x=x, lw=0.8, ms=2.5, zorder=1)


def _handles() -> list[Line2D]:
    shown = [("BERT", "-"), ("GPT-2", "-")]
    handles = [
        Line2D([], [], c=GREY, ls=dash, marker=MARKERS[name], ms=3, lw=0.8, label=f"{name} (2019)")
        for name, dash in shown
    ]
    return [
        *handles,
        Line2D([], [], c=GREY, ls=":", lw=0.8, label="random words (2019)"),
        Line2D([], [], c="black", ls="-", lw=1.0, label="measured"),
        Line2D([], [], c="black", ls="--", lw=0.9, label="adjusted"),
    ]
