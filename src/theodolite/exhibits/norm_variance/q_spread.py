"""appendix-i-spread: how far Q spreads over units that occur equally often, for states that leave a norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import MODEL, UNITS, Need
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named, panels, panels_size
from theodolite.exhibits.note import empty
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import GREY, look
from theodolite.exhibits.text import plain
from theodolite.exhibits.undrawn import undrawn
from theodolite.studies.choice import Choice
from theodolite.studies.layer_norm import layers_with_norms, spread
from theodolite.studies.surveyed import Surveyed, labels

READS = ("layers", "tokens", "units", "coordinates", "layer_norms")
MOST_LINES = 7
NO_BIN = "no half a decade of n with three units that differ"


def _no_norm(survey: Surveyed) -> str:
    return f"no state of {survey.model} that was surveyed leaves a norm; `{survey.command()}` surveys all of them"


NORMS = Need(
    "surveys with a state that leaves a norm",
    lambda survey: bool(layers_with_norms(survey)),
    _no_norm,
)


@exhibit(
    "norm-variance/appendix-i-spread",
    title="The spread of Q(X_t) against n for states that leave a norm",
    needs=[MODEL, UNITS, NORMS],
    options=("population", "specials", "layers"),
    reads=READS,
)
def appendix_i_spread(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the standard deviation of Q(X_t) by bins of n, a panel a model, a line a layer."""
    plate = spreads(surveys, choice)
    tables = [plate.data[plate.data["survey"] == name] for name in labels(surveys)]
    undrawn(surveys, [t.where(t["q_sd"] > 0) for t in tables], ["q_sd"], lambda survey, table: NO_BIN)
    told = caption(
        plate.caption,
        captions.corpora(surveys),
        captions.units(surveys) + of_words(surveys),
        captions.population(choice),
    )
    return Plate(plate.data, told, plate.draw, plate.size)


def spreads(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Return the figure alone; its caption says nothing of models and corpora."""
    chosen = choice.filtered("all")
    names = labels(surveys)
    lines = [{layer: spread(survey, layer, chosen) for layer in _drawn(survey, choice)} for survey in surveys]

    def draw(figure: FigureBase) -> None:
        for ax, survey, name, tables in zip(panels(figure, len(surveys)), surveys, names, lines, strict=True):
            _draw_spread(ax, tables, survey.layer_names)
            ax.set_title(plain(name, 34))

    told = caption(
        "Standard deviation of Q(X_t) over units, by bins of half a decade of n with three units or more; dashed,",
        "the first layer's first bin falling as n^(−1/2), as the appendix expects if units differ in n alone.",
        captions.in_fits(surveys, chosen, "Spread over"),
    )
    data = pd.concat(
        [named(table, name) for name, tables in zip(names, lines, strict=True) for table in tables.values()],
        ignore_index=True,
    )
    return Plate(data, told, draw, panels_size(len(surveys), height=2.6))


def _drawn(survey: Surveyed, choice: Choice) -> list[int]:
    """Return the layers to draw: those asked for that leave a norm, else up to seven evenly from all that do."""
    known = layers_with_norms(survey)
    asked = [layer for layer in choice.layers if layer in known]
    if asked or len(known) <= MOST_LINES:
        return asked or known
    return [known[round(step * (len(known) - 1) / (MOST_LINES - 1))] for step in range(MOST_LINES)]


def _draw_spread(ax: Axes, tables: dict[int, pd.DataFrame], layer_names: dict[int, str]) -> None:
    for line, (layer, table) in enumerate(tables.items()):
        known = table[table["q_sd"].notna()]
        n, sd = known["n"].to_numpy(np.float64), known["q_sd"].to_numpy(np.float64)
        style = look(line)
        ax.plot(
            n, sd, c=style.colour, marker=style.marker, ls=style.dash, ms=3.2, lw=1.1, label=layer_names[layer]
        )
        if line == 0:
            ax.plot(n, known["root_n"].to_numpy(np.float64), c=GREY, ls="--", lw=0.9, label=r"$\propto n^{-1/2}$")
    ax.set_xlabel("$n_t$")
    ax.set_ylabel("s.d. of $Q(X_t)$")
    if any((table["q_sd"] > 0).any() for table in tables.values()):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.legend(fontsize=6, ncols=2, handlelength=2.6)
    else:
        empty(ax, NO_BIN)


def of_words(surveys: Sequence[Surveyed]) -> str:
    """Say that means of several tokens are nothing that a norm gave out, where units are words."""
    words = any(survey.facts["units"] == "word" for survey in surveys)
    return " A word's vector is the mean of its tokens', which no norm gave out." if words else ""
