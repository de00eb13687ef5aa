"""fig9: lengths of documents; fig10: frequencies of units."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import LENGTHS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.few_units import too_few, undrawn_units
from theodolite.exhibits.norm_variance.panels import LOG_N, named, panels, panels_size
from theodolite.exhibits.note import empty
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.steps import draw_bins
from theodolite.exhibits.style import PALE
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.histograms import LONGEST, frequencies, lengths
from theodolite.studies.surveyed import Surveyed, labels


@exhibit("norm-variance/fig9", title="Histogram of sentence lengths", needs=[LENGTHS], reads=())
def fig9(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw how many documents have how many words, a panel a corpus."""
    corpora = list({survey.facts["corpus"]["sha256"]: survey for survey in surveys}.values())
    names = [f"{survey.corpus}, {survey.documents:,} documents" for survey in corpora]
    tables = [lengths(survey) for survey in corpora]

    def draw(figure: FigureBase) -> None:
        for ax, name, table in zip(panels(figure, len(corpora)), names, tables, strict=True):
            draw_bins(ax, _bins(table), linewidth=0)
            ax.set_title(plain(name, 34))
            ax.set_xlabel("words a document")
            ax.set_ylabel("documents")
            short_ticks(ax)

    open_end = any(table["words"].max() >= LONGEST for table in tables)
    last = f"The last bin holds every document of {LONGEST} words or more." if open_end else ""
    told = caption("How many documents have how many words, after the survey's filters.", last)
    data = pd.concat([named(t, s.corpus) for s, t in zip(corpora, tables, strict=True)], ignore_index=True)
    return Plate(data, told, draw, panels_size(len(corpora)))


@exhibit(
    "norm-variance/fig10",
    title="Histogram of log10 n",
    needs=[UNITS],
    options=("population", "filter", "specials"),
)
def fig10(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw how many units occur how often, a panel a model; a pale strip marks the range that fits use."""
    chosen = choice.described()
    names = labels(surveys)
    tables = [frequencies(survey, chosen) for survey in surveys]
    whys = [too_few(survey, chosen, 1) for survey in surveys]
    undrawn_units(surveys, chosen, [t.where(t["count"] > 0) for t in tables], ["count"], 1)

    def draw(figure: FigureBase) -> None:
        axes = panels(figure, len(surveys))
        for ax, name, table, why in zip(axes, names, tables, whys, strict=True):
            ax.axvspan(1, 5, color=PALE, alpha=0.3, lw=0, zorder=0)
            draw_bins(ax, table)
            ax.set_xlim(0, max(5.25, float(table["high"].max())))
            ax.set_title(plain(name, 34))
            ax.set_xlabel(LOG_N)
            if why:
                empty(ax, why)
            ax.set_ylabel("units")
            short_ticks(ax)

    told = caption(
        "How many units occur how often.",
        captions.corpora(surveys),
        captions.units(surveys),
        captions.population(chosen),
        captions.in_fits(surveys, chosen, "Over"),
        f"Pale: the range {captions.RANGE} that fits use.",
    )
    data = pd.concat([named(table, name) for name, table in zip(names, tables, strict=True)], ignore_index=True)
    return Plate(data, told, draw, panels_size(len(surveys)))


def _bins(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"low": table["words"] - 0.5, "high": table["words"] + 0.5, "count": table["documents"]})
