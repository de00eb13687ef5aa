"""fig14 (15, 16): histograms of Q, M and V, a panel a layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.few_units import among, undrawn_units
from theodolite.exhibits.norm_variance.panels import FITTED, WIDE, M, Q, V, named
from theodolite.exhibits.note import empty
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.steps import draw_outline
from theodolite.exhibits.style import BLACK, BLUE, DASHES, VERMILLION
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.histograms import histogram
from theodolite.studies.surveyed import Surveyed, labels

LOOKS = {"q": (Q, BLACK, DASHES[0]), "m": (M, BLUE, DASHES[1]), "v": (V, VERMILLION, DASHES[2])}
ACROSS = 5
CUT = 1.5  # a spike so many times as high as the next bar is cut


@exhibit(
    "norm-variance/fig14",
    "norm-variance/fig15",
    "norm-variance/fig16",
    title="Histograms of Q, M and V, a panel a layer",
    needs=[UNITS],
    options=("layers", *FITTED[1:]),
)
def fig14(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw histograms of Q(X_t), M(X_t) and V(X_t) for each layer of each model."""
    chosen, names = choice.described(), labels(surveys)
    blocks = [
        {layer: histogram(survey, layer, chosen) for layer in chosen.layers or survey.layer_names}
        for survey in surveys
    ]
    whole = [pd.concat(block.values()) for block in blocks]
    undrawn_units(surveys, chosen, [table.where(table["count"] > 0) for table in whole], ["count"], 1)
    rows = [-(-len(block) // ACROSS) for block in blocks]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=rows).ravel()
        for part, name, block in zip(parts, names, blocks, strict=True):
            part.suptitle(plain(name), fontsize=9)
            _draw_block(part, block, f"no units{among(chosen)}")
        handles = [Line2D([], [], c=colour, ls=dash, lw=1.2) for _, colour, dash in LOOKS.values()]
        figure.legend(handles, [label for label, *_ in LOOKS.values()], loc="outside upper center", ncols=3)

    data = pd.concat(
        [named(t.assign(layer=k), n) for n, block in zip(names, blocks, strict=True) for k, t in block.items()],
        ignore_index=True,
    )
    told = caption(
        "Histograms of Q(Xₜ), M(Xₜ) and V(Xₜ) over units, for each layer.",
        captions.corpora(surveys),
        captions.units(surveys),
        captions.population(chosen),
        captions.massive(surveys, chosen),
        captions.variant(chosen),
        captions.in_fits(surveys, chosen, "Over"),
        "The last bin is open: it also holds what lies far above the upper quartile. A number is the height of a "
        "bar of V that is cut.",
    )
    return Plate(data, told, draw, (WIDE, 1.15 * sum(rows) + 0.35 * len(rows) + 0.25))


def _draw_block(figure: FigureBase, block: dict[int, pd.DataFrame], why: str) -> None:
    down = -(-len(block) // ACROSS)
    axes = figure.subplots(down, min(ACROSS, len(block)), squeeze=False).ravel()
    for ax, (layer, bins) in zip(axes, block.items(), strict=False):
        for quantity, (_, colour, dash) in LOOKS.items():
            draw_outline(ax, bins[bins["quantity"] == quantity], colour=colour, dash=dash)
        ax.set_title(f"layer {layer}", fontsize=7, pad=2)
        _cap(ax, bins)
        short_ticks(ax)
        ax.tick_params(labelsize=6)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=3))
        ax.yaxis.set_major_locator(MaxNLocator(nbins=3))
        if not bins["count"].any():
            empty(ax, why)
    for spare in axes[len(block) :]:
        spare.remove()


def _cap(ax: Axes, bins: pd.DataFrame) -> None:
    """Cut a spike of V, of units that occur once, and say how high it is."""
    counts = bins["count"].to_numpy()
    tallest = int(counts.argmax())
    rest = max(int(n) for place, n in enumerate(counts) if place != tallest)
    spike = bins.iloc[tallest]
    if spike["quantity"] != "v" or spike["count"] <= CUT * rest or rest == 0:
        ax.set_ylim(bottom=0)
        return
    ax.set_ylim(0, 1.15 * rest)
    text = f" {int(spike['count']):,}"
    ax.annotate(text, (spike["high"], 1.12 * rest), va="top", fontsize=5.5, c=LOOKS["v"][1])
