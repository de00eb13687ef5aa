"""fig13, fig15, fig16 and fig17: the table of positions and the cosines between its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.weights import POSITIONS, WEIGHTS, model_name
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.heatmap import draw_heat
from theodolite.exhibits.drawing.style import BLACK, GREY, VERMILLION, get_line_style
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import format_scientific


@exhibit(
    "bert-spaces/fig13",
    "bert-spaces/fig15",
    title="Learned positional embeddings and their cosines",
    needs=[WEIGHTS, POSITIONS],
    reads=(),
)
def fig13(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the table of positions and the cosines between its rows, one row of panels per model."""
    names = make_labels(surveys)
    found = [get_tables(survey, ["position_values", "position_cosines", "position_tail"]) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(found), 2, squeeze=False, width_ratios=[1.2, 1])
        for (left, right), name, (values, cosines, tail) in zip(axes, names, found, strict=True):
            image = draw_heat(left, values, "position", "coordinate", "value")
            figure.colorbar(image, ax=left, fraction=0.05)
            left.set_title(clean_label(name, 40))
            image = draw_heat(right, cosines, "position", "other", "cosine", limit=1.0)
            figure.colorbar(image, ax=right, fraction=0.05)
            right.set(title="cosines", xlabel="position")
            first = tail["first"].iloc[0]
            if not pd.isna(first) and first > 0:
                for ax in (left, right):
                    ax.axhline(float(first) - 0.5, c="black", lw=0.8, ls="--")

    caption = join_sentences(
        "The table of positions, one row per position, and the cosines between its rows.",
        *(describe_tail(survey, "below the dashed line; ") for survey in surveys),
        *(_describe_steps(survey, values) for survey, (values, _, _) in zip(surveys, found, strict=True)),
    )
    data = pd.concat(
        [add_survey_column(cosines, name) for name, (_, cosines, _) in zip(names, found, strict=True)]
    )
    return Plate(data.reset_index(drop=True), caption, draw, (7.0, 3.0 * len(found)))


def describe_tail(survey: SurveyData, mark: str = "") -> str:
    """State which positions at the end of the table are untrained. `mark` says how the figure shows them."""
    (table,) = get_tables(survey, ["position_tail"])
    row, name = table.iloc[0], model_name(survey)
    if pd.isna(row["first"]):
        reason = row["reason"] or "the last position is predicted by those before it"
        return f"{name}: no untrained positions ({reason})."
    if row["first"] == 0:
        return f"{name}: all positions look untrained."
    return (
        f"{name}: positions {int(row['first'])} to {int(row['positions']) - 1} look untrained ({mark}"
        f"standard deviation {format_scientific(row['sd'])}, p-value of the change "
        f"{format_scientific(row['change_p'])})."
    )


def _describe_steps(survey: SurveyData, values: pd.DataFrame) -> str:
    steps = []
    for what in ("position", "coordinate"):
        places = values[what].unique()
        if len(places) > 1 and places[1] > 1:
            steps.append(f"every {int(places[1])}th {what}")
    return f"{model_name(survey)}: {' and '.join(steps)} is drawn." if steps else ""


SHADES = colormaps["viridis"]
BY_DISTANCE = ("position_relative", "position_rotary", "position_bias")
ANY_POSITIONS = Need(
    "models with a table of positions, rotary frequencies or a relative bias",
    lambda survey: any(name in survey.tables for name in BY_DISTANCE),
    lambda survey: f"{survey.model} has none of them",
    reason=lambda survey: "no table of positions, rotary frequencies or relative bias",
)


@exhibit(
    "bert-spaces/fig16",
    title="Cosines of the first ten positions with the next 128",
    needs=[WEIGHTS, POSITIONS],
    reads=(),
)
def fig16(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the cosines of positions 1 to 10 with the positions after them."""
    names = make_labels(surveys)
    found = [get_tables(survey, ["position_first"])[0] for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(found), 1, squeeze=False).ravel()
        for ax, name, table in zip(axes, names, found, strict=True):
            _draw_lines(ax, table, "other")
            ax.set(title=clean_label(name), xlabel="position", ylabel="cosine")
        _draw_colorbar(figure, list(axes), found)

    data = pd.concat(
        [add_survey_column(table, name) for name, table in zip(names, found, strict=True)], ignore_index=True
    )
    caption = "Cosines of each of the positions 1 to 10 with the positions from 1 to 128 after it."
    return Plate(data, caption, draw, (7.0, 2.5 * len(found)))


@exhibit(
    "bert-spaces/fig17",
    title="Cosines of positions by distance",
    needs=[WEIGHTS, ANY_POSITIONS],
    reads=(),
)
def fig17(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw cosines of positions by distance; for models without a table, the curve of RoPE or the bias."""
    names = make_labels(surveys)
    panels = [_choose_panel(survey) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(panels), 1, squeeze=False).ravel()
        for ax, name, (kind, table, first) in zip(axes, names, panels, strict=True):
            DRAW_KIND[kind](ax, table, first)
            ax.set_title(clean_label(name))
        learned = [(ax, first) for ax, (_, _, first) in zip(axes, panels, strict=True) if first is not None]
        if learned:
            _draw_colorbar(figure, [ax for ax, _ in learned], [first for _, first in learned])

    kinds = {kind for kind, _, _ in panels}
    caption = join_sentences(*(sentence for kind, sentence in KIND_CAPTIONS.items() if kind in kinds))
    data = pd.concat(
        [add_survey_column(table, name) for name, (_, table, _) in zip(names, panels, strict=True)],
        ignore_index=True,
    )
    return Plate(data, caption, draw, (7.0, 2.7 * len(panels)))


KIND_CAPTIONS = {
    "position_relative": "Cosines of a position with those after it, by distance. Thin: positions 1 to 10. "
    "Thick: mean over all trained positions except position 0. Strip: 5% to 95% of them. Dashed: sinusoidal "
    "encodings of the same dimension.",
    "position_rotary": "Models without a table of positions that rotate queries and keys: mean of cos(kθ) over "
    "the rotary frequencies θ, which is the cosine between two equal vectors that are k positions apart.",
    "position_bias": "Models without a table of positions that add a learned bias to attention scores: bias by "
    "the distance from query to key, one line per head.",
}


def _choose_panel(survey: SurveyData) -> tuple[str, pd.DataFrame, pd.DataFrame | None]:
    kind = next(name for name in BY_DISTANCE if name in survey.tables)
    first = survey.tables["position_first"] if kind == "position_relative" else None
    return kind, survey.tables[kind], first


def _draw_learned(ax: Axes, table: pd.DataFrame, first: Any) -> None:
    after = first[first["lag"] >= 0]
    ax.fill_between(table["lag"], table["p05"], table["p95"], color=GREY, alpha=0.2, lw=0)
    _draw_lines(ax, after, "lag", width=0.7)
    ax.plot(table["lag"], table["mean"], c=BLACK, lw=1.8, label="mean, 5–95%")
    ax.plot(table["lag"], table["sinusoid"], c=VERMILLION, lw=1.0, ls="--", label="sinusoids")
    ax.set(xlabel="distance", ylabel="cosine")
    ax.legend(loc="upper right", ncols=2)


def _draw_rotary(ax: Axes, table: pd.DataFrame, first: Any) -> None:
    for number, (name, of) in enumerate(table.groupby("frequencies", sort=False)):
        line = get_line_style(number)
        ax.plot(of["distance"], of["similarity"], c=line.colour, ls=line.dash, lw=1.1, label=clean_label(name))
    ax.set(xlabel="distance (positions)", ylabel="mean of cos(kθ)")
    ax.axhline(0, c=GREY, lw=0.5)
    ax.legend(loc="upper right")


def _draw_bias(ax: Axes, table: pd.DataFrame, first: Any) -> None:
    known = table["distance"].notna().any()
    for name, of in table.groupby("table", sort=False):
        dash = "-" if name == table["table"].iloc[0] else "--"
        for place, (_, head) in enumerate(of.groupby("head")):
            across = (head["distance"] if known else head["bucket"]).to_numpy(np.float64)
            ax.plot(across, head["bias"], c=get_line_style(place).colour, ls=dash, lw=0.9)
    ax.set(xlabel="distance from query to key" if known else "bucket", ylabel="bias")
    ax.axhline(0, c=GREY, lw=0.5)


DRAW_KIND = {"position_relative": _draw_learned, "position_rotary": _draw_rotary, "position_bias": _draw_bias}


def _draw_lines(ax: Axes, table: pd.DataFrame, across: str, width: float = 1.0) -> None:
    most = max(float(table["position"].max()), 2.0) if len(table) else 2.0
    for position, of in table.groupby("position"):
        ax.plot(of[across], of["cosine"], c=SHADES((float(str(position)) - 1) / (most - 1) * 0.92), lw=width)
    ax.axhline(0, c=GREY, lw=0.5)
    ax.margins(x=0.01)


def _draw_colorbar(figure: FigureBase, axes: list[Axes], tables: Sequence[pd.DataFrame]) -> None:
    most = max([2.0, *(float(table["position"].max()) for table in tables if len(table))])
    scale = ScalarMappable(Normalize(1, 1 + (most - 1) / 0.92), SHADES)
    figure.colorbar(scale, ax=axes, fraction=0.03, label="from position").ax.set_ylim(1, most)
