"""fig5, fig11 and drift: the correlation over layers between the norm of the mean and the mean cosine."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import (
    describe_corpora,
    describe_massive,
    describe_population,
    join_sentences,
)
from theodolite.exhibits.drawing.style import COLOURS, GREY, PALE
from theodolite.exhibits.drawing.tables import make_table_plate
from theodolite.exhibits.empty_surveys import describe_empty_surveys
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import exhibit
from theodolite.measures.drift import MAX_PERMUTED
from theodolite.studies.anisotropy.drift import JOINED, compute_drift
from theodolite.studies.anisotropy.layers import KINDS
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, make_labels
from theodolite.text import format_scientific

LEVEL = 0.05
LEAST = 1e-4
"""Left end of the axis, where smaller p-values are drawn as arrows: what decides is close to 0.05."""
SMALLER = r"$\leftarrow$"
MARKS = {JOINED: ("o", 5.0), "encoder": ("<", 4.0), "decoder": (">", 4.0)}
STACKS = {JOINED: "encoder and decoder joined", "encoder": "encoder only", "decoder": "decoder only"}
COLUMNS = 4  # of the legend
PANELS = {
    "p": "{} test",
    "exact_p": "all permutations\n(not in the paper)",
    "shift_p": "circular shifts\n(not in the paper)",
    "step_p": "first differences\n(not in the paper)",
}
EXACT = {"step_p": "step_exact_p"}
"""Panels of p-values that are not in the paper: the exact one is drawn where it is known."""


@exhibit(
    "anisotropy-inherent/fig5",
    title="p-value of the Spearman correlation between the norm of the mean and the mean cosine",
    options=("population",),
    reads=("layers",),
)
def fig5(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the p-value of Spearman's test for each model, grouped by modality."""
    return _make_plate(surveys, choice, "spearman")


@exhibit(
    "anisotropy-inherent/fig11",
    title="p-value of the Pearson correlation between the norm of the mean and the mean cosine",
    options=("population",),
    reads=("layers",),
)
def fig11(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the p-value of Pearson's test for each model, grouped by modality."""
    return _make_plate(surveys, choice, "pearson")


def _make_plate(surveys: Sequence[SurveyData], choice: Choice, test: str) -> Plate:
    found = compute_drift(surveys, [choice.population]).query("states == 'library'")
    order = {name: place for place, name in enumerate(KINDS)}
    data = found.sort_values("kind", key=lambda kinds: kinds.map(order), kind="stable", ignore_index=True)
    names = list(dict.fromkeys(data["survey"]))
    not_drawn = _describe_empty(surveys, data, test)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(PANELS), sharey=True, sharex=True)
        for ax, (ending, title) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, data, names, test, ending)
            ax.set_title(title.format(test.capitalize()), c="black" if ending == "p" else GREY)
            ax.set_xlabel("p")
        _label_rows(axes[0], data, names)
        axes[0].set_xlim(0.5 * LEAST, 2.5)
        _legend(figure, data)

    caption = join_sentences(
        f"p-value of the {test.capitalize()} correlation over layers between the norm of the mean vector and the",
        "mean cosine, for each model. Right of the red dotted line (0.05) the correlation is not significant.",
        "Filled: positive correlation. Open: negative. Layers are the hidden states of the library, as in the "
        "paper.",
        "Not in the paper, because layers are few and not independent: the exact p-value over all permutations of",
        f"up to {MAX_PERMUTED} layers, which is at least 2/layers! where the test of the paper may give 0; the",
        "p-value over all circular shifts of one series, which is at least 1/layers (grey bar); and that of the",
        f"differences between consecutive layers, exact for up to {MAX_PERMUTED} differences.",
        f"Arrows: p-values below {LEAST:.4f}." if _has_tiny(data, test) else "",
        describe_corpora(surveys),
        describe_population(choice, surveys),
        describe_massive(surveys, choice),
        not_drawn,
    )
    return Plate(data, caption, draw, (7.0, 1.05 + 0.19 * len(names) + 0.16 * -(-len(_marks(data)) // COLUMNS)))


def _describe_empty(surveys: Sequence[SurveyData], data: pd.DataFrame, test: str) -> str:
    """Return a sentence on surveys without any p-value. Raise if all are such."""
    tables = [data[data["survey"] == name] for name in make_labels(surveys)]

    def explain(survey: SurveyData, table: pd.DataFrame) -> str:
        return str(json.loads(table["undefined"].iloc[0]).get(f"{test}_p", "undefined"))

    return describe_empty_surveys(
        surveys,
        tables,
        [f"{test}_{ending}" for ending in PANELS],
        explain,
        lambda: "survey more layers, or a larger corpus",
    )


def _draw_panel(ax: Axes, data: pd.DataFrame, names: list[str], test: str, ending: str) -> None:
    """Draw one p-value per model, one row each."""
    ax.set_xscale("log")
    ax.axvline(LEVEL, c="red", ls=":", lw=1.1, zorder=1)
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_minor_locator(NullLocator())
    sign = "step" if ending == "step_p" else ""
    for row in data.to_dict("records"):
        at, p = names.index(row["survey"]), _shown_p(row, test, ending)
        marker, size = MARKS[row["stack"]]
        colour = COLOURS[KINDS.index(row["kind"]) % len(COLOURS)] if row["kind"] in KINDS else GREY
        if np.isfinite(p):
            filled = float(row[f"{test}_{sign}" if sign else test]) > 0
            style: dict[str, Any] = {"mfc": colour if filled else "white", "mec": colour, "ms": size}
            shape = marker if p >= LEAST else SMALLER
            ax.plot(max(p, LEAST), at, ls="", marker=shape, **style, zorder=4 if row["stack"] == JOINED else 3)
        elif row["stack"] == JOINED:
            many = ending == "exact_p" and np.isfinite(row[f"{test}_p"])
            words = f"{row['layers']} layers" if many else "undefined"
            ax.text(LEVEL / 1.3, at, words, fontsize=6, c=GREY, ha="right", va="center")
        if ending == "shift_p" and row["stack"] == JOINED and np.isfinite(p):
            ax.plot(float(row["shift_floor"]), at, "|", c=GREY, ms=8, mew=1.0, zorder=2)


def _label_rows(ax: Axes, data: pd.DataFrame, names: list[str]) -> None:
    """Name the models on the left and draw lines between the kinds of model."""
    ax.set_yticks(range(len(names)), [clean_label(name, 34) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    kinds = dict(zip(data["survey"], data["kind"], strict=True))
    for place, name in enumerate(names[1:], 1):
        if kinds[name] != kinds[names[place - 1]]:
            for each in ax.get_figure().axes:  # type: ignore[union-attr]
                each.axhline(place - 0.5, c=PALE, lw=0.6)


def _legend(figure: FigureBase, data: pd.DataFrame) -> None:
    marks = _marks(data)
    handles = [Line2D([], [], ls="", marker=marker, ms=4.5, c=colour) for marker, colour in marks.values()]
    figure.legend(handles, list(marks), loc="outside upper center", ncols=COLUMNS, handletextpad=0.1)


def _marks(data: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the legend: one colour per kind of model, and one marker per stack if there are several."""
    kinds = [one for one in KINDS if one in set(data["kind"])]
    stacks = [one for one in MARKS if one in set(data["stack"])] if data["stack"].nunique() > 1 else []
    colours = {one: ("o", COLOURS[KINDS.index(one) % len(COLOURS)]) for one in kinds}
    return colours | {STACKS[one]: (MARKS[one][0], GREY) for one in stacks}


def _shown_p(row: Mapping[Hashable, Any], test: str, ending: str) -> float:
    exact = float(row.get(f"{test}_{EXACT.get(ending, ending)}", np.nan))
    return exact if np.isfinite(exact) else float(row[f"{test}_{ending}"])


def _has_tiny(data: pd.DataFrame, test: str) -> bool:
    return any(_shown_p(row, test, ending) < LEAST for row in data.to_dict("records") for ending in PANELS)


HEADS = {
    "spearman": "ρ",
    "spearman_p": "p",
    "spearman_exact_p": "p exact",
    "spearman_shift_p": "p shifts",
    "spearman_step": "ρ steps",
    "spearman_step_p": "p steps",
    "spearman_step_exact_p": "p steps exact",
    "pearson": "r",
    "pearson_p": "p",
    "pearson_exact_p": "p exact",
    "pearson_shift_p": "p shifts",
    "pearson_step": "r steps",
    "pearson_step_p": "p steps",
    "pearson_step_exact_p": "p steps exact",
    "shift_floor": "least p shifts",
}


@exhibit(
    "anisotropy-inherent/drift",
    title="The drift test in numbers: Spearman, Pearson, circular shifts and first differences",
    kind="table",
    options=("population",),
    reads=("layers",),
)
def drift_table(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the drift test of every model, stack and choice of states. The data has every population."""
    data = compute_drift(surveys)
    caption = join_sentences(
        "Correlation over layers between the norm of the mean vector and the mean cosine: Spearman's ρ and",
        "Pearson's r. p: for independent layers, from Student's t as in the paper, which gives 0 for |ρ| = 1.",
        f"p exact: over all permutations of up to {MAX_PERMUTED} layers. p shifts: over all circular shifts, at",
        "least the last column. steps: of the differences between consecutive layers. States: the hidden states",
        "of the library, as in the paper, or the embeddings and the output of every block. The .csv and .json",
        "formats have every population, and the reasons for undefined numbers.",
        describe_corpora(surveys),
        describe_population(choice, surveys),
        describe_massive(surveys, choice),
    )
    return make_table_plate(data, _format_rows(data[data["population"] == choice.population]), caption)


def _format_rows(rows: pd.DataFrame) -> pd.DataFrame:
    shown = rows[["survey", "stack", "states", "layers"]].astype(str)
    for column in HEADS:
        shown[column] = [format_scientific(float(value), 2) for value in rows[column]]
    shown.columns = pd.Index([*shown.columns[:4], *HEADS.values()])
    return shown.reset_index(drop=True)
