"""parting: the distance between tokens that two sentences share, against random pairs of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from theodolite.errors import InputError
from theodolite.exhibits.bert_spaces.token_paths import TRACE
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import legend_columns
from theodolite.exhibits.drawing.style import BLACK, ORANGE, SKY, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels

BANDS = {"different": (SKY, "pairs of different tokens"), "same": (ORANGE, "pairs of the same token")}
PANELS = {"relative": "distance / median of different tokens", "cosine": "cosine"}
MOST_NAMED = 16
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
    return [
        (stack, shown[shown["stack"] == stack], reference[reference["stack"] == stack])
        for stack in reference["stack"].unique()
    ]


def _draw_block(figure: FigureBase, name: str, compared: pd.DataFrame, reference: pd.DataFrame) -> None:
    figure.suptitle(name, fontsize=9)
    axes = figure.subplots(1, len(PANELS))
    tokens = [token for _, token in compared.groupby("position")]
    for ax, (column, label) in zip(axes, PANELS.items(), strict=True):
        for kind, (colour, _) in BANDS.items():
            _draw_band(ax, reference[reference["kind"] == kind], column, colour)
        for number, token in enumerate(tokens):
            line = get_line_style(number)
            ax.plot(token["layer"], token[column], c=line.colour, ls=line.dash, marker=line.marker, ms=2.6, lw=1)
        ax.set_title(label)
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
        shorten_ticks(ax)
    most = compared["relative"].max()
    axes[0].set_ylim(0, max(CUT, 1.05 * most) if most == most else CUT)
    handles, labels = _make_legend(tokens)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, max(4, legend_columns(labels, 7.0))))


def _draw_band(ax: Axes, reference: pd.DataFrame, column: str, colour: str) -> None:
    layer, low, high = (
        reference[name].to_numpy(np.float64) for name in ("layer", f"{column}_low", f"{column}_high")
    )
    ax.fill_between(layer, low, high, color=colour, alpha=0.25, lw=0)
    edge = low if column == "relative" else high
    ax.plot(layer, edge, c=colour, lw=1.0)


def _make_legend(tokens: Sequence[pd.DataFrame]) -> tuple[list[Line2D | Patch], list[str]]:
    handles: list[Line2D | Patch] = [Patch(color=colour, alpha=0.4, lw=0) for colour, _ in BANDS.values()]
    labels = [label for _, label in BANDS.values()]
    if len(tokens) <= MOST_NAMED:
        for number, token in enumerate(tokens):
            line = get_line_style(number)
            handles.append(Line2D([], [], c=line.colour, ls=line.dash, marker=line.marker, ms=3, lw=1))
            labels.append(clean_label(token["token"].iloc[0].strip() or "␣", 12))
    else:
        handles.append(Line2D([], [], c=BLACK, lw=1))
        labels.append("tokens of both sentences")
    return handles, labels


def _describe_parting(name: str, compared: pd.DataFrame) -> str:
    parted = compared[compared["parted"]]
    if parted.empty:
        return f"{name}: no token has parted at any layer."
    first = parted.groupby("position").agg(token=("token", "first"), layer=("layer", "min"))
    layers = ", ".join(f"{clean_label(row['token'].strip())} {row['layer']}" for row in first.to_dict("records"))
    return f"{name}: first layer at which a token has parted: {layers}."
