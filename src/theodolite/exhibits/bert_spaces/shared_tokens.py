"""parting: the distance between tokens that two sentences share, against random pairs of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from theodolite.errors import InputError
from theodolite.exhibits.bert_spaces.token_paths import TRACE, name_tokens, token_handle, token_style
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import legend_columns
from theodolite.exhibits.drawing.style import BLACK, GREY, PALE, LineStyle
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels

BANDS = {"different": (PALE, "different tokens"), "same": ("#F0E442", "same token")}
"""Colour and label of the strips; lines have other colours."""
PANELS = {"relative": "distance / median of different tokens", "cosine": "cosine"}
MOST_NAMED = 30
CUT = 1.8  # medians; a strip that reaches further, because of a few long vectors, is cut off


@exhibit(
    "bert-spaces/parting",
    title="Distance between tokens that two sentences share, by layer, against random pairs of tokens",
    needs=[TRACE],
    reads=(),
)
def parting(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw distance and cosine of the tokens that the first two sentences share, by layer."""
    names = make_labels(surveys)
    blocks = [
        (clean_label(f"{name} {stack}".strip()), compared, reference)
        for survey, name in zip(surveys, names, strict=True)
        for stack, compared, reference in _read_stacks(survey)
    ]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, compared, reference) in zip(parts, blocks, strict=True):
            _draw_block(part, name, compared, reference)

    data = pd.concat([compared.assign(model=name) for name, compared, _ in blocks], ignore_index=True)
    caption = join_sentences(
        "Distance and cosine between the states of tokens that both sentences share, by layer: "
        + " and ".join(f"“{text}”" for text in surveys[0].facts["settings"]["sentences"][:2])
        + ".",
        "Strips: 5% to 95% of random pairs of different tokens, and of the same token in two sentences, in "
        "ordinary text. Distances are relative to the median distance of different tokens at the layer. Two "
        "states have parted when their distance reaches the lower edge of the strip of different tokens.",
        _describe_chosen([compared for _, compared, _ in blocks]),
        *(_describe_parting(name, compared) for name, compared, _ in blocks),
    )
    return Plate(data, caption, draw, (7.0, 3.0 * len(blocks)))


def _read_stacks(survey: SurveyData) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    if "compared" not in survey.tables:
        raise InputError(
            f"bert-spaces/parting needs two sentences: {survey.folder or survey.model} has one; "
            "compare two with `theodolite trace MODEL SENTENCE SENTENCE --out DIR`."
        )
    compared, reference = get_tables(survey, ["compared", "reference"])
    shown = compared[compared["same"] & ~compared["special"] & (compared["other"] == 1)]
    spelled = get_tables(survey, ["tokens"])[0].query("sentence == 0")
    shown = shown.merge(spelled[["stack", "position", "chosen"]], on=["stack", "position"])
    return [
        (stack, shown[shown["stack"] == stack], reference[reference["stack"] == stack])
        for stack in reference["stack"].unique()
    ]


def _draw_block(figure: FigureBase, name: str, compared: pd.DataFrame, reference: pd.DataFrame) -> None:
    figure.suptitle(name, fontsize=9)
    axes = figure.subplots(1, len(PANELS))
    tokens = [token for _, token in compared.groupby("position")]
    for ax, (column, label) in zip(axes, PANELS.items(), strict=True):
        _draw_bands(ax, reference, column)
        for token, (line, width) in zip(tokens, _line_styles(tokens), strict=True):
            marks = {"c": line.colour, "ls": line.dash, "marker": line.marker, "ms": 2.6 if width < 2 else 4.5}
            ax.plot(token["layer"], token[column], lw=width, zorder=3 if width < 2 else 4, **marks)
        ax.set_title(label)
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
        shorten_ticks(ax)
    most = compared["relative"].max()
    axes[0].set_ylim(0, max(CUT, 1.05 * most) if most == most else CUT)
    handles, labels = _make_legend(tokens)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, max(4, legend_columns(labels, 7.0))))


def _draw_bands(ax: Axes, reference: pd.DataFrame, column: str) -> None:
    """Draw the strips and write the name of each where it is wide and not covered by the other."""
    ends = {
        kind: reference.loc[reference["kind"] == kind, ["layer", f"{column}_low", f"{column}_high"]]
        .to_numpy(np.float64)
        .T
        for kind in BANDS
    }
    (_, low, high), (_, other_low, other_high) = ends.values()
    shared = np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0)
    for kind, (layer, low, high) in ends.items():
        colour, name = BANDS[kind]
        ax.fill_between(layer, low, high, color=colour, alpha=0.4, lw=0)
        ax.plot(layer, low if column == "relative" else high, c=GREY, lw=0.8)
        widest = int(np.argmax(high - low - 2 * shared))
        side = "left" if widest == 0 else "right" if widest == len(layer) - 1 else "center"
        place: dict[str, Any] = {"ha": side, "va": "center", "fontsize": 6.5, "zorder": 5}
        text = ax.text(layer[widest], (low[widest] + high[widest]) / 2, name, **place)
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _line_styles(tokens: Sequence[pd.DataFrame]) -> list[tuple[LineStyle, float]]:
    """Return style and width of the line of each token. The line of a token that was asked for is wide."""
    asked = [bool(token["chosen"].iloc[0]) for token in tokens]
    return [(token_style(number), 2.2 if wide else 0.9) for number, wide in enumerate(asked)]


def _make_legend(tokens: Sequence[pd.DataFrame]) -> tuple[list[Line2D | Patch], list[str]]:
    handles: list[Line2D | Patch] = [Patch(color=colour, alpha=0.5, lw=0) for colour, _ in BANDS.values()]
    labels = [f"random pairs, {label}" for _, label in BANDS.values()]
    if len(tokens) <= MOST_NAMED:
        handles += [token_handle(line, width) for line, width in _line_styles(tokens)]
        labels += name_tokens([token["token"].iloc[0] for token in tokens])
    else:
        handles.append(Line2D([], [], c=BLACK, lw=1))
        labels.append("tokens of both sentences")
    return handles, labels


def _describe_chosen(blocks: Sequence[pd.DataFrame]) -> str:
    named = dict.fromkeys(
        clean_label(token.strip()) for compared in blocks for token in compared.loc[compared["chosen"], "token"]
    )
    return f"Wide line: {', '.join(named)}." if named else ""


def _describe_parting(name: str, compared: pd.DataFrame) -> str:
    parted = compared[compared["parted"]]
    if parted.empty:
        return f"{name}: no token has parted at any layer."
    first = parted.groupby("position").agg(token=("token", "first"), layer=("layer", "min"))
    layers = ", ".join(f"{clean_label(row['token'].strip())} {row['layer']}" for row in first.to_dict("records"))
    return f"{name}: first layer at which a token has parted: {layers}."
