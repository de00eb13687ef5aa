"""fig1 to fig4: the mean cosine by layer, a figure for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.captions import by_layer_caption
from theodolite.exhibits.depth_lines import draw_line, finish
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import draw_legend, legend_inches
from theodolite.exhibits.needs import CHARACTER_LEVEL, CONVOLUTIONAL, SPEECH_OR_VISION, TOKEN_LEVEL
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import PALE, look
from theodolite.exhibits.undrawn import undrawn
from theodolite.studies.anisotropy.by_layer import by_layer
from theodolite.studies.anisotropy.kinds import SPEECH, VISION, kind
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed, labels
from theodolite.studies.undefined import why_undefined

COSINE = "mean_cosine"
OPTIONS = ("population", "depth")
READS = ("layers",)
FIRST = "Mean cosine between vectors of each layer, over all pairs (the paper sampled pairs)"


@exhibit(
    "anisotropy-inherent/fig1",
    title="Mean cosine by layer, token-level text models",
    needs=[TOKEN_LEVEL],
    options=OPTIONS,
    reads=READS,
)
def fig1(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean cosine of each layer of text models by tokens, an encoder joined with its decoder."""
    return _plate(surveys, choice, f"{FIRST}: text models by tokens.")


@exhibit(
    "anisotropy-inherent/fig2",
    title="Mean cosine by layer, character- and byte-level text models",
    needs=[CHARACTER_LEVEL],
    options=OPTIONS,
    reads=READS,
)
def fig2(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean cosine of each layer of text models by characters or bytes."""
    return _plate(surveys, choice, f"{FIRST}: text models by characters or bytes.")


@exhibit(
    "anisotropy-inherent/fig3",
    title="Mean cosine by layer, speech and vision models",
    needs=[SPEECH_OR_VISION],
    options=OPTIONS,
    reads=READS,
)
def fig3(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean cosine of each layer of speech models and of vision models, a panel for each."""
    return _plate(surveys, choice, f"{FIRST}: speech and vision models.", (SPEECH, VISION))


@exhibit(
    "anisotropy-inherent/fig4",
    title="Mean cosine by layer, convolutional models",
    needs=[CONVOLUTIONAL],
    options=OPTIONS,
    reads=READS,
)
def fig4(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean cosine of each stage of convolutional models."""
    return _plate(surveys, choice, f"{FIRST}: convolutional models.")


def _plate(surveys: Sequence[Surveyed], choice: Choice, first: str, panels: tuple[str, ...] = ()) -> Plate:
    """Return the figure: one panel, or one for each kind that a survey is of."""
    names = labels(surveys)
    tables = [by_layer(s, choice.population, [COSINE], name) for s, name in zip(surveys, names, strict=True)]
    lacking = undrawn(surveys, tables, [COSINE], lambda s, _: why_undefined(s, choice.population, COSINE))
    kinds = [kind(survey) for survey in surveys]
    shown = [one for one in panels if one in kinds] or [""]
    x = "joined_depth" if choice.depth == "normalised" else "layer"
    width = 4.6 if len(shown) == 1 else 7.0

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for ax, of in zip(axes, shown, strict=True):
            inside = [number for number, one in enumerate(kinds) if of in ("", one)]
            ax.axhline(0, c=PALE, lw=0.7, zorder=0)
            for number in inside:
                draw_line(ax, tables[number], COSINE, look(number), x=x)
            finish(ax, [tables[number] for number in inside], COSINE, x)
            ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)
            ax.set_title(of)
        axes[0].set_ylabel("mean cosine")
        draw_legend(figure, names, width=width)

    told = by_layer_caption(surveys, choice, tables, COSINE, first, lacking)
    size = (width, 2.5 + legend_inches(names, width))
    return Plate(pd.concat(tables, ignore_index=True), told, draw, size)
