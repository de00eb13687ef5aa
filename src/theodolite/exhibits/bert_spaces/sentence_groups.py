"""fig23: groups of synonymous sentences on their first two principal components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import legend_columns
from theodolite.exhibits.drawing.style import GREY, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import format_scientific

PANELS = {"groups": "without nonsense", "with-nonsense": "with nonsense"}
POOLED = {
    "first": "the state of the first token",
    "mean": "the mean over tokens",
    "last": "the state of the last token",
    "max": "the maximum of each coordinate over tokens",
    "cls": "the state of the classification token",
}


@exhibit(
    "bert-spaces/fig23",
    title="PCA of groups of synonymous sentences, with and without nonsense",
    needs=[require_laboratory("groups", "theodolite groups MODEL FILE --out DIR")],
    options=("layer",),
    reads=(),
)
def fig23(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw every sentence as a point, one colour and marker per group, at one layer (by default the last)."""
    names = make_labels(surveys)
    blocks = []
    for survey, name in zip(surveys, names, strict=True):
        layer = one_layer(choice, max(survey.layer_names))
        blocks.append((f"{clean_label(name)}, {survey.layer_names[layer]}", *_read_layer(survey, layer)))
    groups = list(dict.fromkeys(group for _, points, _ in blocks for group in points["group"]))

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, points, rows) in zip(parts, blocks, strict=True):
            part.suptitle(name, fontsize=9)
            shown = [population for population in PANELS if population in set(points["population"])]
            for ax, population in zip(part.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
                _draw_panel(ax, points[points["population"] == population], rows[population], groups)
                ax.set_title(f"{PANELS[population]}\n{ax.get_title()}")
        names_of_groups = [clean_label(group, 24) for group in groups]
        handles = [_handle(number, group, blocks[0][1]) for number, group in enumerate(groups)]
        figure.legend(
            handles, names_of_groups, loc="outside lower center", ncols=legend_columns(names_of_groups, 7.0)
        )

    data = pd.concat([points.assign(model=name) for name, points, _ in blocks], ignore_index=True)
    caption = join_sentences(
        "Sentences on the first two principal components of all sentences shown.",
        *(_describe_sentences(survey, name) for survey, name in zip(surveys, names, strict=True)),
        "Silhouettes are computed from the complete vectors, not from the projection.",
    )
    return Plate(data, caption, draw, (7.0, 3.1 * len(blocks) + 0.25))


def _read_layer(survey: SurveyData, layer: int) -> tuple[pd.DataFrame, dict[str, Mapping[str, Any]]]:
    """Return the points of one layer with their groups, and its numbers by population."""
    points, sentences, rows = get_tables(survey, ["projection", "sentences", "layers"])
    points = points[points["layer"] == layer].merge(sentences, on="number")
    selected = rows[rows["layer"] == layer].to_dict("records")
    return points, {row["population"]: {str(name): value for name, value in row.items()} for row in selected}


def _draw_panel(ax: Axes, points: pd.DataFrame, row: Mapping[str, Any], groups: Sequence[str]) -> None:
    for place, group in enumerate(groups):
        inside = points[points["group"] == group]
        if len(inside):
            ax.scatter(inside["x"], inside["y"], s=15, **_point_style(place, bool(inside["nonsense"].iloc[0])))
    for axis, label in ((ax.set_xlabel, "x"), (ax.set_ylabel, "y")):
        share = row[f"share_{label}"]
        axis(
            {"x": "first component", "y": "second component"}[label]
            + (f" ({share:.0%})" if share == share else "")
        )
    if isinstance(row["undefined"], str):
        ax.text(0.5, 0.6, row["undefined"], transform=ax.transAxes, ha="center", fontsize=7)
        ax.set_title("no silhouette")
    else:
        ax.set_title(f"silhouette {format_scientific(row['silhouette'], 2)}, p = {format_scientific(row['p'], 1)}")


def _point_style(place: int, nonsense: bool) -> dict[str, Any]:
    """Return the style of the points of a group. Nonsense is hollow and grey."""
    line = get_line_style(place)
    if nonsense:
        return {"marker": line.marker, "facecolors": "none", "edgecolors": GREY, "linewidths": 0.9}
    return {"marker": line.marker, "c": line.colour, "alpha": 0.8, "linewidths": 0}


def _handle(place: int, group: str, points: pd.DataFrame) -> Line2D:
    line = get_line_style(place)
    nonsense = bool(points.loc[points["group"] == group, "nonsense"].any())
    filled: dict[str, Any] = {"mfc": "none", "mec": GREY} if nonsense else {"c": line.colour}
    return Line2D([], [], ls="", marker=line.marker, ms=4.5, **filled)


def _describe_sentences(survey: SurveyData, name: str) -> str:
    """State how sentences were pooled, and the silhouette of their bags of words."""
    settings = survey.facts["settings"]
    bag, sentences = get_tables(survey, ["bag_of_words", "sentences"])
    words = bag.set_index("population")["silhouette"]
    special = "" if settings["special"] else ", without special tokens"
    if (population := settings.get("population", "all")) != "all":
        special += f", {population.replace('-', ' ')}"
    count = len(sentences[~sentences["nonsense"]])
    return (
        f"{clean_label(name)}: {POOLED[settings['pooling']]}{special}; {count} sentences; silhouette of "
        f"their bags of words: {format_scientific(float(words['groups']), 2)}"
        + (
            f" ({format_scientific(float(words['with-nonsense']), 2)} with nonsense)."
            if "with-nonsense" in words
            else "."
        )
    )
