"""fig23: groups of sentences that say the same, in the plane of their first principal components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.exhibits.style import GREY, look
from theodolite.exhibits.text import number, plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

PANELS = {"groups": "without nonsense", "with-nonsense": "with nonsense"}
POOLED = {
    "first": "the first token's state",
    "mean": "the mean over tokens",
    "last": "the last token's state",
    "max": "the largest of each coordinate over tokens",
}


@exhibit(
    "bert-spaces/fig23",
    title="PCA of groups of synonymous sentences, with and without nonsense",
    needs=[of_laboratory("groups", "theodolite groups MODEL FILE --out DIR")],
    options=("layer",),
    reads=(),
)
def fig23(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw every sentence as a point, a colour and a marker a group, at one layer: the last unless told."""
    names = labels(surveys)
    blocks = []
    for survey, name in zip(surveys, names, strict=True):
        layer = one_layer(choice, max(survey.layer_names))
        blocks.append((f"{plain(name)}, {survey.layer_names[layer]}", *_layer(survey, layer)))
    groups = list(dict.fromkeys(group for _, points, _ in blocks for group in points["group"]))

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, points, rows) in zip(parts, blocks, strict=True):
            part.suptitle(name, fontsize=9)
            shown = [population for population in PANELS if population in set(points["population"])]
            for ax, population in zip(part.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
                _draw_panel(ax, points[points["population"] == population], rows[population], groups)
                ax.set_title(f"{PANELS[population]}\n{ax.get_title()}")
        told = [plain(group, 24) for group in groups]
        handles = [_handle(number, group, blocks[0][1]) for number, group in enumerate(groups)]
        figure.legend(handles, told, loc="outside lower center", ncols=legend_columns(told, 7.0))

    data = pd.concat([points.assign(model=name) for name, points, _ in blocks], ignore_index=True)
    told = caption(
        "Sentences on the first two principal components of all that are shown.",
        *(_told(survey, name) for survey, name in zip(surveys, names, strict=True)),
        "Silhouettes are of the whole vectors, not of the picture.",
    )
    return Plate(data, told, draw, (7.0, 3.1 * len(blocks) + 0.25))


def _layer(survey: Surveyed, layer: int) -> tuple[pd.DataFrame, dict[str, Mapping[str, Any]]]:
    """Return one layer's points with their groups, and its numbers by population."""
    points, sentences, rows = tables_of(survey, ["projection", "sentences", "layers"])
    points = points[points["layer"] == layer].merge(sentences, on="number")
    here = rows[rows["layer"] == layer].to_dict("records")
    return points, {row["population"]: {str(name): value for name, value in row.items()} for row in here}


def _draw_panel(ax: Axes, points: pd.DataFrame, row: Mapping[str, Any], groups: Sequence[str]) -> None:
    for place, group in enumerate(groups):
        inside = points[points["group"] == group]
        if len(inside):
            ax.scatter(inside["x"], inside["y"], s=15, **_look(place, bool(inside["nonsense"].iloc[0])))
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
        ax.set_title(f"silhouette {number(row['silhouette'], 2)}, p = {number(row['p'], 1)}")


def _look(place: int, nonsense: bool) -> dict[str, Any]:
    """Return how a group's points look: nonsense is hollow and grey."""
    line = look(place)
    if nonsense:
        return {"marker": line.marker, "facecolors": "none", "edgecolors": GREY, "linewidths": 0.9}
    return {"marker": line.marker, "c": line.colour, "alpha": 0.8, "linewidths": 0}


def _handle(place: int, group: str, points: pd.DataFrame) -> Line2D:
    line = look(place)
    nonsense = bool(points.loc[points["group"] == group, "nonsense"].any())
    filled: dict[str, Any] = {"mfc": "none", "mec": GREY} if nonsense else {"c": line.colour}
    return Line2D([], [], ls="", marker=line.marker, ms=4.5, **filled)


def _told(survey: Surveyed, name: str) -> str:
    """Say how the sentences were pooled, and what their words alone would tell apart."""
    settings = survey.facts["settings"]
    bag, sentences = tables_of(survey, ["bag_of_words", "sentences"])
    words = bag.set_index("population")["silhouette"]
    left = "" if settings["special"] else ", special tokens left out"
    count = len(sentences[~sentences["nonsense"]])
    return (
        f"{plain(name)}: {POOLED[settings['pooling']]}{left}; {count} sentences, whose bags of words have "
        f"the silhouette {number(float(words['groups']), 2)}"
        + (f" ({number(float(words['with-nonsense']), 2)} with nonsense)." if "with-nonsense" in words else ".")
    )
