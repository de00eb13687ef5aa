"""attention: the drift of states, queries and keys against the training step, and how sharp attention is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import ATTENTION, SERIES
from theodolite.exhibits.norm_variance.captions import caption, population
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.step_axis import scale_of, step_axis
from theodolite.exhibits.style import BLACK, BLUE, GREEN, PURPLE, VERMILLION, Look
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.dynamics.attention_means import attention_means
from theodolite.studies.dynamics.leads import MEAN, leads
from theodolite.studies.surveyed import Surveyed, labels

Z = 1.96
STATES, QUERIES, KEYS = Look(BLUE, "o", "-"), Look(VERMILLION, "s", "-"), Look(GREEN, "^", (0, (4, 1.5)))


class Panel(NamedTuple):
    """One panel: its title, the columns on it by name and look, and where its half-way step is told, if it is."""

    title: str
    lines: dict[str, tuple[str, Look]]
    half: str = ""
    unit: bool = False  # from 0 to 1


PANELS = (
    Panel("norm of the mean", {"state_mean_norm": ("states", STATES)}, half="drift"),
    Panel("mean norm", {"query_norm": ("queries", QUERIES), "key_norm": ("keys", KEYS)}),
    Panel(
        "mean cosine",
        {
            "state_cosine": ("states", STATES),
            "query_cosine": ("queries", QUERIES),
            "key_cosine": ("keys", KEYS),
        },
    ),
    Panel(
        "attention",
        {
            "attention_max": ("largest weight", Look(BLACK, "D", "-")),
            "attention_entropy_share": ("entropy / log length", Look(PURPLE, "v", (0, (4, 1.5)))),
        },
        half="sharp",
        unit=True,
    ),
)


@exhibit(
    "dynamics/attention",
    title="Drift of states, queries and keys, and sharpness of attention, against the training step",
    needs=[SERIES, ATTENTION],
    options=("population", "steps"),
)
def attention(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw means over blocks of every checkpoint, a row of panels a series."""
    names = labels(surveys)
    if any(choice.population not in set(survey.tables["attention"]["population"]) for survey in surveys):
        raise InputError(f"--population {choice.population!r}: attention is told of all and of without-first.")
    tables = [
        attention_means(survey, choice.population, name) for survey, name in zip(surveys, names, strict=True)
    ]
    halves = [_halves(survey, choice.population) for survey in surveys]
    width = 8.6

    def draw(figure: FigureBase) -> None:
        grid = figure.subplots(len(surveys), len(PANELS), squeeze=False)
        for axes, table, half, name in zip(grid, tables, halves, names, strict=True):
            steps = table["step"].unique().tolist()
            for ax, panel in zip(axes, PANELS, strict=True):
                _draw(ax, panel, table, half)
                step_axis(ax, steps, scale_of(steps, choice.steps))
                ax.set_title(panel.title)
                if len(panel.lines) > 1:
                    ax.legend(loc="best", handlelength=1.8, fontsize=6.5)
            if len(surveys) > 1:
                axes[0].set_ylabel(plain(name, 30))

    told = caption(
        "Means over blocks at each checkpoint, of the same few documents every time.",
        _read(surveys, tables),
        population(choice),
        "States are those that enter a block; queries and keys are as projected, before any rotation.",
        "Strip: ±1.96 standard errors, by jackknife over documents.",
        "Bands: the checkpoints between which the norm of the mean and the largest weight cover half of their way."
        if any(half["drift"] is not None or half["sharp"] is not None for half in halves)
        else "",
        *_orders(halves, names),
    )
    return Plate(pd.concat(tables, ignore_index=True), told, draw, (width, 2.1 * len(surveys)))


Halves = dict[str, tuple[float, float] | str | None]


def _halves(survey: Surveyed, population: str) -> Halves:
    """Return the stretches in which the drift and the sharpness cover half of their way, and which is first."""
    table = leads(survey)
    rows = table[
        (table["population"] == population)
        & (table["layer_name"] == MEAN)
        & (table["drift"] == "state_mean_norm")
        & (table["sharpness"] == "attention_max")
    ]
    if not len(rows):
        return {"drift": None, "sharp": None, "order": "undecided"}
    row = rows.iloc[0]
    found: Halves = {"order": str(row["order"])}
    for side in ("drift", "sharp"):
        low, high = float(row[f"{side}_half_low"]), float(row[f"{side}_half_high"])
        found[side] = None if np.isnan(low) else (low, high)
    return found


def _draw(ax: Axes, panel: Panel, table: pd.DataFrame, halves: Halves) -> None:
    for measure, (name, line) in panel.lines.items():
        rows = table[table["measure"] == measure]
        x, y = rows["step"].to_numpy(np.float64), rows["mean"].to_numpy(np.float64)
        reach = Z * rows["se"].to_numpy(np.float64)
        ax.plot(x, y, c=line.colour, marker=line.marker, ls=line.dash, ms=3, lw=1.1, label=name)
        ax.fill_between(x, y - reach, y + reach, color=line.colour, alpha=0.16, lw=0)
    if not any(np.isfinite(table[table["measure"] == one]["mean"]).any() for one in panel.lines):
        ax.text(0.5, 0.5, "undefined", transform=ax.transAxes, ha="center", va="center", fontsize=7)
    band = halves.get(panel.half) if panel.half else None
    if isinstance(band, tuple):
        ax.axvspan(*band, color="#F0E6C8", alpha=0.7, lw=0, zorder=0)
    if panel.unit:
        ax.set_ylim(-0.03, 1.03)
    else:
        short_ticks(ax)


def _read(surveys: Sequence[Surveyed], tables: Sequence[pd.DataFrame]) -> str:
    told = [
        f"{plain(survey.model)} on {int(table['documents'].max())} documents of {plain(survey.corpus)}"
        for survey, table in zip(surveys, tables, strict=True)
        if len(table)
    ]
    return "; ".join(told) + "."


def _orders(halves: Sequence[Halves], names: Sequence[str]) -> list[str]:
    """Say which of the two comes first, each verdict once."""
    verdicts = {
        "before": "The drift comes first{of}.",
        "after": "The sharpness comes first{of}.",
        "undecided": "Which of the two comes first cannot be told{of} from these checkpoints.",
    }
    told = []
    for word, sentence in verdicts.items():
        mine = [plain(name) for half, name in zip(halves, names, strict=True) if half["order"] == word]
        of = f" of {' and '.join(mine)}" if len(names) > 1 else ""
        told += [sentence.format(of=of)] if mine else []
    return told
