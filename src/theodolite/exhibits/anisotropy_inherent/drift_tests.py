"""fig5 and fig11: the p-value of the drift test for each model; beyond the paper, p-values that know of order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption, corpora, massive, population
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import COLOURS, GREY, PALE
from theodolite.exhibits.text import plain
from theodolite.exhibits.undrawn import undrawn
from theodolite.studies.anisotropy.drift import JOINED, drift
from theodolite.studies.anisotropy.kinds import KINDS
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed, labels

LEVEL = 0.05
LEAST = 1e-10
"""Smaller p-values are drawn here: t gives 0 for a perfect correlation, and a longer axis would hide the rest."""
MARKS = {JOINED: ("o", 5.0), "encoder": ("<", 4.0), "decoder": (">", 4.0)}
STACKS = {JOINED: "both stacks joined", "encoder": "encoder alone", "decoder": "decoder alone"}
COLUMNS = 4  # of the legend
PANELS = {
    "p": "{} test",
    "shift_p": "circular shifts\n(beyond the paper)",
    "step_p": "first differences\n(beyond the paper)",
}


@exhibit(
    "anisotropy-inherent/fig5",
    title="p of the Spearman test between the norm of the mean and the mean cosine",
    options=("population",),
    reads=("layers",),
)
def fig5(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the p-value of Spearman's test for each model, by modality."""
    return _plate(surveys, choice, "spearman")


@exhibit(
    "anisotropy-inherent/fig11",
    title="p of the Pearson test between the norm of the mean and the mean cosine",
    options=("population",),
    reads=("layers",),
)
def fig11(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the p-value of Pearson's test for each model, by modality."""
    return _plate(surveys, choice, "pearson")


def _plate(surveys: Sequence[Surveyed], choice: Choice, test: str) -> Plate:
    found = drift(surveys, [choice.population]).query("states == 'library'")
    order = {name: place for place, name in enumerate(KINDS)}
    data = found.sort_values("kind", key=lambda kinds: kinds.map(order), kind="stable", ignore_index=True)
    names = list(dict.fromkeys(data["survey"]))
    lacking = _lacking(surveys, data, test)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(PANELS), sharey=True, sharex=True, width_ratios=[1.5, 1, 1])
        for ax, (ending, title) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, data, names, test, ending)
            ax.set_title(title.format(test.capitalize()), c="black" if ending == "p" else GREY)
            ax.set_xlabel("p")
        _name_rows(axes[0], data, names)
        axes[0].set_xlim(_left(data, test), 2.5)
        _legend(figure, data)

    told = caption(
        f"p-value of the {test.capitalize()} correlation over layers between the norm of the mean vector and the",
        "mean cosine, for each model. Right of the red dotted line (0.05) the correlation is not significant.",
        "Filled: positive correlation; open: negative. Layers are the library's hidden states, as in the paper.",
        "Beyond the paper, since layers are few and depend on each other: the p-value over all circular shifts of",
        "one series, no smaller than the grey bar (1/layers), and that of the correlation of steps from layer to",
        "layer.",
        f"p below {LEAST:g} stands at that." if _tiny(data, test) else "",
        corpora(surveys),
        population(choice),
        massive(surveys, choice),
        lacking,
    )
    return Plate(data, told, draw, (7.0, 1.05 + 0.19 * len(names) + 0.16 * -(-len(_marks(data)) // COLUMNS)))


def _lacking(surveys: Sequence[Surveyed], data: pd.DataFrame, test: str) -> str:
    """Return a sentence on surveys without any p-value; refuse if that is all."""
    tables = [data[data["survey"] == name] for name in labels(surveys)]

    def why(survey: Surveyed, table: pd.DataFrame) -> str:
        return str(json.loads(table["undefined"].iloc[0]).get(f"{test}_p", "undefined"))

    way = "survey more layers, or a larger corpus"
    return undrawn(surveys, tables, [f"{test}_{ending}" for ending in PANELS], why, lambda: way)


def _draw_panel(ax: Axes, data: pd.DataFrame, names: list[str], test: str, ending: str) -> None:
    """Draw one p-value of every model, a row each."""
    ax.set_xscale("log")
    ax.axvline(LEVEL, c="red", ls=":", lw=1.1, zorder=1)
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_minor_locator(NullLocator())
    sign = "step" if ending == "step_p" else ""
    for row in data.to_dict("records"):
        at, p = names.index(row["survey"]), float(row[f"{test}_{ending}"])
        marker, size = MARKS[row["stack"]]
        colour = COLOURS[KINDS.index(row["kind"]) % len(COLOURS)] if row["kind"] in KINDS else GREY
        if np.isfinite(p):
            filled = float(row[f"{test}_{sign}" if sign else test]) > 0
            look: dict[str, Any] = {"mfc": colour if filled else "white", "mec": colour, "ms": size}
            ax.plot(max(p, LEAST), at, marker, **look, zorder=4 if row["stack"] == JOINED else 3)
        elif row["stack"] == JOINED:
            ax.text(LEVEL / 1.3, at, "undefined", fontsize=6, c=GREY, ha="right", va="center")
        if ending == "shift_p" and row["stack"] == JOINED and np.isfinite(p):
            ax.plot(float(row["shift_floor"]), at, "|", c=GREY, ms=8, mew=1.0, zorder=2)


def _name_rows(ax: Axes, data: pd.DataFrame, names: list[str]) -> None:
    """Name the models on the left and rule off the kinds, each named once."""
    ax.set_yticks(range(len(names)), [plain(name, 34) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    kinds = dict(zip(data["survey"], data["kind"], strict=True))
    for place, name in enumerate(names[1:], 1):
        if kinds[name] != kinds[names[place - 1]]:
            for each in ax.get_figure().axes:  # type: ignore[union-attr]
                each.axhline(place - 0.5, c=PALE, lw=0.6)


def _legend(figure: FigureBase, data: pd.DataFrame) -> None:
    told = _marks(data)
    handles = [Line2D([], [], ls="", marker=marker, ms=4.5, c=colour) for marker, colour in told.values()]
    figure.legend(handles, list(told), loc="outside upper center", ncols=COLUMNS, handletextpad=0.1)


def _marks(data: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return what the marks mean: a colour a kind, and a shape a stack where there are stacks."""
    kinds = [one for one in KINDS if one in set(data["kind"])]
    stacks = [one for one in MARKS if one in set(data["stack"])] if data["stack"].nunique() > 1 else []
    told = {one: ("o", COLOURS[KINDS.index(one) % len(COLOURS)]) for one in kinds}
    return told | {STACKS[one]: (MARKS[one][0], GREY) for one in stacks}


def _left(data: pd.DataFrame, test: str) -> float:
    """Return where the axis begins: a little below the smallest p-value, and where the line has room."""
    values = data[[f"{test}_{ending}" for ending in PANELS]].to_numpy(np.float64)
    known = values[np.isfinite(values)]
    return 0.3 * float(np.clip(known.min(initial=1.0), LEAST, LEVEL / 10))


def _tiny(data: pd.DataFrame, test: str) -> bool:
    return bool((data[[f"{test}_p", f"{test}_step_p"]] < LEAST).any().any())
