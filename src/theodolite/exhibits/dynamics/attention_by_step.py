"""attention: the drift of states, queries and keys, and the sharpness of attention, by training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.errors import InputError
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import describe_population, describe_seeds, join_sentences
from theodolite.exhibits.drawing.style import BLACK, BLUE, GREEN, PURPLE, VERMILLION, LineStyle
from theodolite.exhibits.dynamics.step_axis import choose_scale, format_step_axis
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import ATTENTION, SERIES
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.series.averages import average_attention
from theodolite.studies.series.leads import MEAN, make_lead_table
from theodolite.studies.series.seeds import group_seeds, merge_seeds
from theodolite.studies.survey_data import SurveyData, make_labels

Z = 1.96
STATES, QUERIES, KEYS = (
    LineStyle(BLUE, "o", "-"),
    LineStyle(VERMILLION, "s", "-"),
    LineStyle(GREEN, "^", (0, (4, 1.5))),
)


class Panel(NamedTuple):
    """A panel: its title, its columns with labels and styles, and the quantity whose half-way step it marks."""

    title: str
    lines: dict[str, tuple[str, LineStyle]]
    half: str = ""
    unit: bool = False  # the axis runs from 0 to 1


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
            "attention_max": ("largest weight", LineStyle(BLACK, "D", "-")),
            "attention_entropy_share": ("entropy / log length", LineStyle(PURPLE, "v", (0, (4, 1.5)))),
        },
        half="sharp",
        unit=True,
    ),
)


@exhibit(
    "dynamics/attention",
    title="Drift of states, queries and keys, and sharpness of attention, by training step",
    needs=[SERIES, ATTENTION],
    options=("population", "steps"),
    populations=("all", "without-first"),
)
def attention(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw means over blocks by step, one row of panels per series; seeds of one run are a band."""
    labels = make_labels(surveys)
    if any(choice.population not in set(survey.tables["attention"]["population"]) for survey in surveys):
        raise InputError(
            f"--population {choice.population!r}: attention is measured for the populations all and without-first."
        )
    each = [
        average_attention(survey, choice.population, name) for survey, name in zip(surveys, labels, strict=True)
    ]
    runs = group_seeds(labels)
    names = list(runs)
    tables = [_merge([each[place] for place in places], run) for run, places in runs.items()]
    found = [_halves(survey, choice.population) for survey in surveys]
    halves = [_merge_halves([found[place] for place in places]) for places in runs.values()]
    width = 8.6

    def draw(figure: FigureBase) -> None:
        grid = figure.subplots(len(runs), len(PANELS), squeeze=False)
        for axes, table, half, name in zip(grid, tables, halves, names, strict=True):
            steps = table["step"].unique().tolist()
            for ax, panel in zip(axes, PANELS, strict=True):
                _draw(ax, panel, table, half)
                format_step_axis(ax, steps, choose_scale(steps, choice.steps))
                ax.set_title(panel.title)
                if len(panel.lines) > 1:
                    ax.legend(loc="best", handlelength=1.8, fontsize=6.5)
            if len(runs) > 1:
                axes[0].set_ylabel(clean_label(name, 30))

    caption = join_sentences(
        "Means over blocks at each checkpoint, on the same few documents.",
        _describe_documents(surveys, each),
        describe_population(choice),
        "States: the inputs of a block. Queries and keys: before rotation by position.",
        "Strip: ±1.96 standard errors, by jackknife over documents."
        if any(len(places) == 1 for places in runs.values())
        else "",
        describe_seeds({run: len(places) for run, places in runs.items()}),
        "Bands: the steps between which the norm of the mean and the largest weight reach half of their change."
        if any(half["drift"] is not None or half["sharp"] is not None for half in halves)
        else "",
        *_describe_orders(halves, names),
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, (width, 2.1 * len(runs)))


Halves = dict[str, tuple[float, float] | str | None]


def _halves(survey: SurveyData, population: str) -> Halves:
    """Return the intervals in which drift and sharpness reach half of their total change, and which is first."""
    table = make_lead_table(survey)
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


def _merge(tables: Sequence[pd.DataFrame], run: str) -> pd.DataFrame:
    """Return the table of a run: of several seeds the mean, with their range and without standard errors."""
    if len(tables) == 1:
        return tables[0]
    return merge_seeds(tables, run, ["step", "population", "measure"], ["mean"]).assign(se=np.nan)


def _merge_halves(of_seeds: Sequence[Halves]) -> Halves:
    """Return the intervals of a run; of several seeds only which comes first, if they agree."""
    if len(of_seeds) == 1:
        return of_seeds[0]
    orders = {each["order"] for each in of_seeds}
    return {"drift": None, "sharp": None, "order": orders.pop() if len(orders) == 1 else "undecided"}


def _draw(ax: Axes, panel: Panel, table: pd.DataFrame, halves: Halves) -> None:
    for measure, (name, line) in panel.lines.items():
        rows = table[table["measure"] == measure]
        x, y = rows["step"].to_numpy(np.float64), rows["mean"].to_numpy(np.float64)
        reach = Z * rows["se"].to_numpy(np.float64)
        low, high = y - reach, y + reach
        if "mean_low" in rows:
            low, high = (rows[column].to_numpy(np.float64) for column in ("mean_low", "mean_high"))
        ax.plot(x, y, c=line.colour, marker=line.marker, ls=line.dash, ms=3, lw=1.1, label=name)
        ax.fill_between(x, low, high, color=line.colour, alpha=0.16, lw=0)
    if not any(np.isfinite(table[table["measure"] == one]["mean"]).any() for one in panel.lines):
        ax.text(0.5, 0.5, "undefined", transform=ax.transAxes, ha="center", va="center", fontsize=7)
    band = halves.get(panel.half) if panel.half else None
    if isinstance(band, tuple):
        ax.axvspan(*band, color="#F0E6C8", alpha=0.7, lw=0, zorder=0)
    if panel.unit:
        ax.set_ylim(-0.03, 1.03)
    else:
        shorten_ticks(ax)


def _describe_documents(surveys: Sequence[SurveyData], tables: Sequence[pd.DataFrame]) -> str:
    sentences = [
        f"{clean_label(survey.model)} on {int(table['documents'].max())} documents of {clean_label(survey.corpus)}"
        for survey, table in zip(surveys, tables, strict=True)
        if len(table)
    ]
    return "; ".join(sentences) + "."


def _describe_orders(halves: Sequence[Halves], names: Sequence[str]) -> list[str]:
    """State which of the two comes first, once for each verdict."""
    verdicts = {
        "before": "The drift comes first{of}.",
        "after": "The sharpness comes first{of}.",
        "undecided": "These checkpoints do not decide which comes first{of}.",
    }
    sentences = []
    for word, sentence in verdicts.items():
        models = [clean_label(name) for half, name in zip(halves, names, strict=True) if half["order"] == word]
        of = f" in {' and '.join(models)}" if len(names) > 1 else ""
        sentences += [sentence.format(of=of)] if models else []
    return sentences
