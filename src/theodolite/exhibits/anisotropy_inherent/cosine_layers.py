"""fig1 to fig4: the mean cosine by layer, one figure per kind of model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.captions import compose_layer_caption
from theodolite.exhibits.drawing.layer_lines import draw_line, format_layer_axis
from theodolite.exhibits.drawing.panels import draw_legend, legend_inches
from theodolite.exhibits.drawing.scatter import draw_names, sample_line
from theodolite.exhibits.drawing.style import PALE, get_line_style
from theodolite.exhibits.empty_surveys import describe_empty_surveys
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import CHARACTER_LEVEL, CONVOLUTIONAL, SPEECH_OR_VISION, TOKEN_LEVEL
from theodolite.exhibits.registry import exhibit
from theodolite.studies.anisotropy.layers import SPEECH, VISION, survey_kind, tabulate_layers
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, explain_undefined, make_labels

COSINE = "mean_cosine"
OPTIONS = ("population", "depth")
READS = ("layers",)
FIRST = "Mean cosine over all pairs of vectors of a layer (the paper sampled pairs)"


@exhibit(
    "anisotropy-inherent/fig1",
    title="Mean cosine by layer, token-level text models",
    needs=[TOKEN_LEVEL],
    options=OPTIONS,
    reads=READS,
)
def fig1(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the mean cosine by layer of token-level text models, an encoder joined with its decoder."""
    return _make_plate(surveys, choice, f"{FIRST}: token-level text models.")


@exhibit(
    "anisotropy-inherent/fig2",
    title="Mean cosine by layer, character- and byte-level text models",
    needs=[CHARACTER_LEVEL],
    options=OPTIONS,
    reads=READS,
)
def fig2(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the mean cosine by layer of character- and byte-level text models."""
    return _make_plate(surveys, choice, f"{FIRST}: character- and byte-level text models.")


@exhibit(
    "anisotropy-inherent/fig3",
    title="Mean cosine by layer, speech and vision models",
    needs=[SPEECH_OR_VISION],
    options=OPTIONS,
    reads=READS,
)
def fig3(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the mean cosine by layer of speech and vision models, one panel for each modality."""
    return _make_plate(surveys, choice, f"{FIRST}: speech and vision models.", (SPEECH, VISION))


@exhibit(
    "anisotropy-inherent/fig4",
    title="Mean cosine by layer, convolutional models",
    needs=[CONVOLUTIONAL],
    options=OPTIONS,
    reads=READS,
)
def fig4(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the mean cosine by stage of convolutional models."""
    return _make_plate(surveys, choice, f"{FIRST}: convolutional models.")


def _make_plate(surveys: Sequence[SurveyData], choice: Choice, first: str, panels: tuple[str, ...] = ()) -> Plate:
    """Return the figure: one panel, or one for each of the kinds in `panels` that a survey has."""
    names = make_labels(surveys)
    tables = [
        tabulate_layers(s, choice.population, [COSINE], name) for s, name in zip(surveys, names, strict=True)
    ]
    not_drawn = describe_empty_surveys(
        surveys, tables, [COSINE], lambda s, _: explain_undefined(s, choice.population, COSINE)
    )
    kinds = [survey_kind(survey) for survey in surveys]
    shown = [one for one in panels if one in kinds] or [""]
    x = "joined_depth" if choice.depth == "normalised" else "layer"
    width = 4.6 if len(shown) == 1 else 7.0

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for ax, of in zip(axes, shown, strict=True):
            numbers = [number for number, one in enumerate(kinds) if of in ("", one)]
            ax.axhline(0, c=PALE, lw=0.7, zorder=0)
            for number in numbers:
                draw_line(ax, tables[number], COSINE, get_line_style(number), x=x)
            format_layer_axis(ax, [tables[number] for number in numbers], COSINE, x)
            ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)
            _name_stacks(ax, {number: tables[number] for number in numbers}, x, (width / len(shown) - 0.6, 1.8))
            ax.set_title(of)
        axes[0].set_ylabel("mean cosine")
        draw_legend(figure, names, width=width)

    caption = compose_layer_caption(surveys, choice, tables, COSINE, first, not_drawn)
    size = (width, 2.5 + legend_inches(names, width))
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, size)


def _name_stacks(ax: Axes, tables: Mapping[int, pd.DataFrame], x: str, inches: tuple[float, float]) -> None:
    """Write "encoder" and "decoder" beside the lines of models that have both, in the colour of the model."""
    known = {number: table[np.isfinite(table[COSINE])] for number, table in tables.items()}
    several = {number: table for number, table in known.items() if table["stack"].nunique() > 1}
    stacks = [
        (number, part) for number, table in several.items() for _, part in table.groupby("stack", sort=False)
    ]
    if not stacks:
        return
    names = [str(part["stack"].iloc[0]) for _, part in stacks]
    at = np.array([part[[x, COSINE]].iloc[len(part) // 2] for _, part in stacks], dtype=np.float64)
    lines = [sample_line(table[[x, COSINE]].to_numpy(np.float64)) for table in known.values()]
    draw_names(ax, names, at, inches, np.vstack(lines))
    for text, (number, _) in zip(ax.texts[-len(names) :], stacks, strict=True):
        text.set_color(get_line_style(number).colour)
