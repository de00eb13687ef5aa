"""fig11 to fig13 and fig22: a grid with one row per layer: Q, M and V on log10 n, and V on M."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, LOG_N, M, Q, V, compose_fit_caption
from theodolite.exhibits.drawing.panels import PAGE_WIDTH
from theodolite.exhibits.drawing.scatter import (
    RASTER_FROM,
    draw_fit_line,
    draw_frequency_bar,
    draw_scatter,
    format_fit,
    make_frequency_scale,
    set_limits,
    write_outside_count,
)
from theodolite.exhibits.drawing.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from theodolite.exhibits.empty_surveys import check_points, describe_filter
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import UNITS, WORDS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import FITS, add_logarithms, fit_units
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.survey_data import SurveyData, make_labels, sample_layers

Labels = dict[str, tuple[str, str]]
ON_M = {"v_on_m": (f"{V} on {M}", M)}
LOGS: Labels = {
    f"log10_1{part}_on_log10_n": (rf"$\log_{{10}}(1+{part.upper()}(X_t))$", LOG_N) for part in "qmv"
} | ON_M
RAW: Labels = {f"{part}_on_log10_n": (label, LOG_N) for part, label in zip("qmv", (Q, M, V), strict=True)} | ON_M
"""The title and the label of the x axis of each fit."""
GRID = ("layers", *FIT_OPTIONS[1:])
Row = tuple[int, str, pd.DataFrame, dict[str, dict[str, Any]]]
PanelFunction = Callable[..., None]


@exhibit(
    "norm-variance/fig11",
    "norm-variance/fig12",
    "norm-variance/fig13",
    title="log10(1+Q), log10(1+M), log10(1+V) on log10 n, and V on M, one row per layer",
    needs=[UNITS],
    options=GRID,
)
def fig11(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw several layers of each model from input to output, four panels per layer."""
    first = "log₁₀(1+Q(Xₜ)), log₁₀(1+M(Xₜ)), log₁₀(1+V(Xₜ)) on log₁₀ n, and V(Xₜ) on M(Xₜ), from input to output."
    return layer_grid(
        surveys, choice.with_filter(), LOGS, draw_scatter, f"{first} Coloured by frequency.", by_frequency=True
    )


def layer_grid(
    surveys: Sequence[SurveyData],
    choice: Choice,
    columns: Labels,
    draw_panel: PanelFunction,
    first: str,
    *,
    by_frequency: bool = False,
) -> Plate:
    """Arrange one block per model, one row per layer and one column per fit.

    `draw_panel` draws a panel and has the parameters of draw_scatter, and with `by_frequency` also `scale`.
    """
    names = make_labels(surveys)
    blocks = [_rows(survey, choice, columns) for survey in surveys]
    check_points(surveys, choice, [pd.concat([table for _, _, table, _ in rows]) for rows in blocks])

    scale = make_frequency_scale([table for rows in blocks for _, _, table, _ in rows])
    options = {"filter_text": describe_filter(choice)} | ({"scale": scale} if by_frequency else {})

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=[len(rows) for rows in blocks])
        for part, name, rows in zip(parts.ravel(), names, blocks, strict=True):
            part.suptitle(clean_label(name), fontsize=9)
            _draw_block(part, rows, columns, partial(draw_panel, **options))
            if by_frequency:
                draw_frequency_bar(part, part.axes, scale, aspect=60)

    data = [
        add_survey_column(table.assign(layer=layer), name)
        for name, rows in zip(names, blocks, strict=True)
        for layer, _, table, _ in rows
    ]
    height = sum(1.25 * len(rows) + 0.45 for rows in blocks)
    return Plate(
        pd.concat(data, ignore_index=True), compose_fit_caption(surveys, choice, first), draw, (PAGE_WIDTH, height)
    )


def _rows(survey: SurveyData, choice: Choice, columns: Labels) -> list[Row]:
    rows = []
    for layer in choice.layers or sample_layers(survey):
        table = select_units(survey, layer, choice)
        rows.append((layer, survey.layer_names[layer], add_logarithms(table), fit_units(table, columns)))
    return rows


def _draw_block(figure: FigureBase, rows: Sequence[Row], columns: Labels, draw_panel: PanelFunction) -> None:
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for number, (across, (layer, name, table, lines)) in enumerate(zip(axes, rows, strict=True)):
        for ax, (column, (title, label)) in zip(across, columns.items(), strict=True):
            x, y = FITS[column]
            draw_panel(ax, table, x, y, lines[column], size=3, interval=False)
            ax.title.set_fontsize(6.5)
            ax.tick_params(labelsize=6)
            if number == 0:
                ax.set_title(f"{title}\n{ax.get_title()}", fontsize=7)
            if number == len(rows) - 1:
                ax.set_xlabel(label, fontsize=7)
        across[0].set_ylabel(
            f"layer {layer}" + (f"\n{clean_label(name)}" if name != f"layer {layer}" else ""), fontsize=7
        )


TOKEN_STYLES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"), (VERMILLION, "v"))
"""Colours and markers for words of 1, 2, 3, 4, and 5 or more tokens."""


@exhibit(
    "norm-variance/fig22",
    title="Q, M and V of words, one row per layer, coloured by the number of tokens per word",
    needs=[WORDS],
    options=GRID,
)
def fig22(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw Q, M and V of words on log10 n, and V on M, coloured by the number of tokens per word."""
    first = (
        "Q(X_w), M(X_w), V(X_w) of words on log₁₀ n, and V(X_w) on M(X_w), from input to output. The vector of a "
        f"word is the mean of the vectors of its tokens. {describe_text(surveys)}"
    )
    labels = {fit: (_name_words(title), _name_words(label)) for fit, (title, label) in RAW.items()}
    plate = layer_grid(surveys, choice.with_filter(), labels, draw_words, first)

    def draw(figure: FigureBase) -> None:
        plate.draw(figure)
        handles = [Line2D([], [], ls="", marker=marker, c=colour, ms=4) for colour, marker in TOKEN_STYLES]
        tokens = [*map(str, range(1, len(TOKEN_STYLES))), f"{len(TOKEN_STYLES)} or more"]
        figure.legend(
            handles, tokens, title="tokens per word", loc="outside upper center", ncols=len(TOKEN_STYLES)
        )

    caption = plate.caption.replace("Pale: units not in the fit.", "The line spans the words in the fit.").replace(
        " Diamonds: special units, which are excluded.", ""
    )
    return Plate(plate.data, caption, draw, (plate.size[0], plate.size[1] + 0.4))


def _name_words(label: str) -> str:
    """Return a label of tokens as one of words: the paper writes X_w for the set of a word."""
    return label.replace("X_t", "X_w").replace("n_t", "n_w")


def describe_text(surveys: Sequence[SurveyData]) -> str:
    """State whether the models read the complete text or the cleaned words of the paper."""
    complete = "The model reads the complete text with punctuation; in the paper it read cleaned words"
    clean = "As in the paper, the model reads only cleaned words: runs of 2 to 15 letters, in lower case"
    is_clean = {
        name: bool(survey.facts.get("settings", {}).get("clean_words"))
        for name, survey in zip(make_labels(surveys), surveys, strict=True)
    }
    if len(set(is_clean.values())) < 2:
        return f"{clean if any(is_clean.values()) else complete}."
    models = {kind: ", ".join(name for name in is_clean if is_clean[name] is kind) for kind in (False, True)}
    return f"{complete} ({models[False]}). {clean} ({models[True]})."


def draw_words(
    ax: Axes,
    points: pd.DataFrame,
    x: str,
    y: str,
    fit: Mapping[str, Any],
    *,
    size: float,
    interval: bool,
    filter_text: str = "",
) -> None:
    """Draw y on x for all words, with a colour and marker for each number of tokens, and the fitted line.

    Words not in the fit are not paler: most words of several tokens are rare, and they show the artefact.
    """
    tokens = np.clip(points["tokens_per_unit"].fillna(1).round().to_numpy(int), 1, len(TOKEN_STYLES))
    for number, (colour, marker) in enumerate(TOKEN_STYLES, 1):
        group = points[tokens == number]
        ax.scatter(
            group[x].to_numpy(),
            group[y].to_numpy(),
            s=size * 1.4,
            c=colour,
            marker=marker,
            alpha=0.45 if number == 1 else 0.85,
            linewidths=0,
            rasterized=len(points) > RASTER_FROM,
        )
    draw_fit_line(ax, points, x, fit, filter_text)
    write_outside_count(ax, set_limits(ax, points, x, y))
    shorten_ticks(ax)
    ax.set_title(format_fit(fit, interval=interval))
