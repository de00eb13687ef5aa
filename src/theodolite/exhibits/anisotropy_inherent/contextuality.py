"""contextuality: self-similarity, intra-sentence similarity and explained variance, beside the published."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.anisotropy_inherent.captions import by_layer_caption
from theodolite.exhibits.depth_lines import draw_line, finish
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns, legend_inches
from theodolite.exhibits.needs import CONTEXTUALITY
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import GREY, PALE, Look, look
from theodolite.exhibits.text import plain
from theodolite.studies.anisotropy.by_layer import by_layer
from theodolite.studies.anisotropy.published import CITED, published
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed, labels

PANELS = {
    "self_similarity": "self-similarity",
    "intra_similarity": "intra-sentence similarity",
    "mev": "maximum explainable variance",
}
THEIRS = {
    "self_similarity": ("cosine_baseline", ":"),
    "intra_similarity": ("intra_similarity", "-"),
    "intra_similarity_adjusted": ("intra_similarity_adjusted", "--"),
    "mev": ("mev_baseline", ":"),
}
"""What Ethayarajh's statistics by layer hold for each of ours; dotted: what he subtracts, not the quantity."""
COLUMNS = [name + ending for name in PANELS for ending in ("", "_adjusted")]
MARKERS = {"BERT": "", "GPT-2": "x"}


@exhibit(
    "anisotropy-inherent/contextuality",
    title="Self-similarity, intra-sentence similarity and explained variance by layer, beside Ethayarajh's (2019)",
    needs=[CONTEXTUALITY],
    options=("population", "depth"),
    reads=("layers",),
)
def contextuality(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw how contextual the states of each layer are, with the anisotropy adjustment and without."""
    names, theirs = labels(surveys), published()
    tables = [by_layer(s, choice.population, COLUMNS, name) for s, name in zip(surveys, names, strict=True)]
    x = "depth" if choice.depth == "normalised" else "layer"

    def draw(figure: FigureBase) -> None:
        for ax, (column, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
            _draw_published(ax, theirs, column, x)
            for place, table in enumerate(tables):
                line = look(place)
                draw_line(ax, table, column, line, x=x, ls="-")
                draw_line(ax, table, f"{column}_adjusted", line, x=x, ls="--", lw=0.9, ms=2.2)
            finish(ax, tables, column, x)
            ax.set_title(title)
        figure.legend(handles=_ours(names), loc="outside upper center", ncols=legend_columns(names, 7.0))
        figure.legend(handles=_handles(), loc="outside lower center", ncols=5)

    told = by_layer_caption(
        surveys,
        choice,
        tables,
        "self_similarity",
        "How contextual states are, by layer. Solid: as measured; dashed: less what anisotropy alone would give.",
        f"Grey: BERT and GPT-2 in the repository of {CITED}: intra-sentence similarity and, for the other two,",
        "what is subtracted (dotted): random words' mean cosine, and their variance along an uncentred direction.",
    )
    data = pd.concat([*tables, theirs.assign(survey=theirs["survey"] + f", {CITED}")], ignore_index=True)
    return Plate(data, told, draw, (7.0, 2.5 + legend_inches(names, 7.0)))


def _draw_published(ax: Axes, theirs: pd.DataFrame, column: str, x: str) -> None:
    ax.axhline(0, c=PALE, lw=0.5, zorder=0)
    for wanted in (column, f"{column}_adjusted"):
        if wanted in THEIRS:
            held, dash = THEIRS[wanted]
            for name, table in theirs.groupby("survey"):
                line = Look(GREY, MARKERS[str(name)], dash)
                draw_line(ax, table, held, line, x=x, lw=0.8, ms=2.5, zorder=1)


def _ours(names: Sequence[str]) -> list[Line2D]:
    """Return a line a survey, solid: dashes tell the adjusted."""
    looks = [look(place) for place in range(len(names))]
    return [
        Line2D([], [], c=line.colour, marker=line.marker, ms=3.5, lw=1.1, label=plain(name))
        for line, name in zip(looks, names, strict=True)
    ]


def _handles() -> list[Line2D]:
    shown = [("BERT", "-"), ("GPT-2", "-")]
    handles = [
        Line2D([], [], c=GREY, ls=dash, marker=MARKERS[name], ms=3, lw=0.8, label=f"{name} (2019)")
        for name, dash in shown
    ]
    return [
        *handles,
        Line2D([], [], c=GREY, ls=":", lw=0.8, label="of random words (2019)"),
        Line2D([], [], c="black", ls="-", lw=1.0, label="measured"),
        Line2D([], [], c="black", ls="--", lw=0.9, label="adjusted"),
    ]
