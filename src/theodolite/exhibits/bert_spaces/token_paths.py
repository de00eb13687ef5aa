"""fig20 and fig21: the paths of tokens through the layers, in the plane of their first principal components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.name_places import draw_names
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLACK, look
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

TRACE = of_laboratory("trace", "theodolite trace MODEL SENTENCE... --out DIR")
PANELS = {"without-last": "without the last layer", "all": "with the last layer"}
MOST_NAMED = 14  # tokens; the names of more would hide the paths
HEIGHT = 3.1


@exhibit("bert-spaces/fig20", title="Paths of tokens, with and without the last layer", needs=[TRACE], reads=())
def fig20(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the paths of all tokens; those that are massive somewhere would hide the others and are left out."""
    return _plate(surveys, "without-massive", "Paths of all tokens through the layers")


@exhibit("bert-spaces/fig21", title="Paths of a few tokens", needs=[TRACE], reads=())
def fig21(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the paths of the chosen tokens, in components of their own."""
    return _plate(surveys, "chosen", "Paths of a few tokens through the layers, numbered")


def _plate(surveys: Sequence[Surveyed], tokens: str, first: str) -> Plate:
    names = labels(surveys)
    blocks = [
        (plain(f"{name} {stack}".strip()), points, shares)
        for survey, name in zip(surveys, names, strict=True)
        for stack, points, shares in _stacks(survey, tokens)
    ]
    sentences = max(int(points["sentence"].max()) + 1 for _, points, _ in blocks)

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, points, shares) in zip(parts, blocks, strict=True):
            part.suptitle(name, fontsize=9)
            shown = [layers for layers in PANELS if (points["layers"] == layers).any()]
            axes = part.subplots(1, len(shown), squeeze=False)[0]
            for ax, layers in zip(axes, shown, strict=True):
                inside = points[points["layers"] == layers]
                _draw_paths(ax, inside, few=tokens == "chosen")
                _name_axes(ax, shares[shares["layers"] == layers])
                ax.set_title(PANELS[layers])
        figure.legend(handles=_handles(sentences), loc="outside lower center", ncols=4)

    data = pd.concat([points.assign(model=name) for name, points, _ in blocks], ignore_index=True)
    told = caption(
        f"{first}, projected on the first two principal components of all points shown"
        + ("" if tokens == "chosen" else ", which favour the directions in which all move")
        + ".",
        _sentences(surveys),
        *(_left_out(survey, name) for survey, name in zip(surveys, names, strict=True) if tokens != "chosen"),
        *(_last(survey, name) for survey, name in zip(surveys, names, strict=True)),
    )
    return Plate(data, told, draw, (7.0, HEIGHT * len(blocks) + 0.3))


def _stacks(survey: Surveyed, tokens: str) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Return, for each stack, the points with their tokens and the shares of variance shown."""
    points, shares, spelled = tables_of(survey, ["projection", "shares", "tokens"])
    points = points[points["tokens"] == tokens].merge(
        spelled[["stack", "sentence", "position", "token", "special"]], on=["stack", "sentence", "position"]
    )
    shares = shares[shares["tokens"] == tokens]
    return [
        (stack, points[points["stack"] == stack], shares[shares["stack"] == stack])
        for stack in points["stack"].unique()
    ]


def _draw_paths(ax: Axes, points: pd.DataFrame, *, few: bool) -> None:
    for _, path in points.groupby(["sentence", "position"]):
        ordered, line = path.sort_values("layer"), look(int(path["sentence"].iloc[0]))
        x, y = ordered["x"].to_numpy(), ordered["y"].to_numpy()
        ax.plot(x, y, c=line.colour, ls=line.dash, lw=1.1 if few else 0.8, alpha=0.9 if few else 0.75, zorder=2)
        if few:
            ax.plot(x, y, c=line.colour, ls="", marker=line.marker, ms=3, zorder=3)
    first, last = points["layer"].min(), points["layer"].max()
    start, end = points[points["layer"] == first], points[points["layer"] == last]
    ax.scatter(start["x"], start["y"], s=13, c=BLACK, linewidths=0.4, edgecolors="white", zorder=5)
    ax.scatter(
        end["x"], end["y"], s=13, marker="s", facecolors="white", edgecolors=BLACK, linewidths=0.7, zorder=5
    )
    ax.margins(0.1)
    names = start.drop_duplicates("token") if few else start.drop_duplicates(["token", "position"])
    if few:
        _number_layers(ax, points)
    if len(names) <= MOST_NAMED:
        draw_names(ax, names["token"].str.strip().tolist(), names[["x", "y"]].to_numpy(np.float64), (3.0, 2.3))


def _number_layers(ax: Axes, points: pd.DataFrame) -> None:
    """Write the layers' numbers beside the first path, as many as can be read."""
    path = points[points["sentence"] == points["sentence"].min()]
    path = path[path["position"] == path["position"].min()].sort_values("layer")
    room = 0.06 * np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
    written = path[["x", "y"]].to_numpy(np.float64)[:1]
    for row in path.iloc[1:].to_dict("records"):
        here = np.array([row["x"], row["y"]])
        if (np.abs(written - here) / room).max(axis=1).min() >= 1:
            ax.annotate(str(row["layer"]), (row["x"], row["y"]), (3, 3), textcoords="offset points", fontsize=6)
            written = np.vstack([written, here])


def _name_axes(ax: Axes, shares: pd.DataFrame) -> None:
    known = shares.set_index("axis")["share"]
    ax.set_xlabel(f"first component ({known['x']:.0%})" if known.notna()["x"] else "first component")
    ax.set_ylabel(f"second component ({known['y']:.0%})" if known.notna()["y"] else "second component")


def _handles(sentences: int) -> list[Line2D]:
    lines = [look(number) for number in range(min(sentences, 6))]
    return [
        *(
            Line2D([], [], c=line.colour, ls=line.dash, lw=1.1, label=f"sentence {number}")
            for number, line in enumerate(lines, 1)
        ),
        Line2D([], [], ls="", marker="o", ms=4, c=BLACK, label="first layer shown"),
        Line2D([], [], ls="", marker="s", ms=4, mfc="white", mec=BLACK, label="last layer shown"),
    ]


def _sentences(surveys: Sequence[Surveyed]) -> str:
    told = dict.fromkeys(text for survey in surveys for text in survey.facts["settings"]["sentences"])
    return (
        "Sentences: " + "; ".join(f"“{text}”" for text in list(told)[:6]) + ("; …" if len(told) > 6 else "") + "."
    )


def _left_out(survey: Surveyed, name: str) -> str:
    (spelled,) = tables_of(survey, ["tokens"])
    massive = spelled[spelled["massive"]]
    if massive.empty:
        return ""
    words = ", ".join(
        dict.fromkeys(f"{row['token'].strip()} at {row['position']}" for row in massive.to_dict("records"))
    )
    return f"{name}: left out, since its norm is over 10 times its layer's median somewhere: {words}."


def _last(survey: Surveyed, name: str) -> str:
    return f"The last layer of {name} is {list(survey.layer_names.values())[-1]}."
