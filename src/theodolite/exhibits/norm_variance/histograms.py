"""fig9, fig10 and fig14 to fig16: histograms of document lengths, of frequencies, and of Q, M and V."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.axes import clean_label, mark_empty, shorten_ticks
from theodolite.exhibits.drawing.bars import draw_histogram, draw_histogram_outline
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, LOG_N, M, Q, V, join_sentences
from theodolite.exhibits.drawing.panels import PAGE_WIDTH, make_panels, panels_size
from theodolite.exhibits.drawing.style import BLACK, BLUE, DASHES, PALE, VERMILLION
from theodolite.exhibits.empty_surveys import describe_empty_units, describe_filter, explain_too_few
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import LENGTHS, UNITS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.units import MAX_WORDS, frequency_histogram, length_histogram, unit_histogram
from theodolite.studies.survey_data import SurveyData, make_labels


@exhibit("norm-variance/fig9", title="Histogram of document lengths in words", needs=[LENGTHS], reads=())
def fig9(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the number of documents by their number of words, one panel per corpus."""
    corpora = list({survey.facts["corpus"]["sha256"]: survey for survey in surveys}.values())
    names = [f"{survey.corpus}, {survey.documents:,} documents" for survey in corpora]
    tables = [length_histogram(survey) for survey in corpora]

    def draw(figure: FigureBase) -> None:
        for ax, name, table in zip(make_panels(figure, len(corpora)), names, tables, strict=True):
            draw_histogram(ax, _bins(table), linewidth=0)
            _use_log_counts(ax, table["documents"])
            occupied = table.loc[table["documents"] > 0, "words"]
            ax.set_xlim(occupied.min() - 1.5, occupied.max() + 1.5)
            ax.set_title(clean_label(name, 34))
            ax.set_xlabel("words per document")
            ax.set_ylabel("documents")
            shorten_ticks(ax)

    open_end = any(table.loc[table["documents"] > 0, "words"].max() >= MAX_WORDS for table in tables)
    last = f"The last bin has all documents of {MAX_WORDS} words or more." if open_end else ""
    caption = join_sentences(
        "Number of documents by their number of words, after the filters of the survey.", last
    )
    data = pd.concat(
        [add_survey_column(t, s.corpus) for s, t in zip(corpora, tables, strict=True)], ignore_index=True
    )
    return Plate(data, caption, draw, panels_size(len(corpora)))


@exhibit(
    "norm-variance/fig10",
    title="Histogram of log10 n, the frequency of units",
    needs=[UNITS],
    options=("population", "filter", "specials"),
)
def fig10(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the number of units by frequency, one panel per model. A pale strip marks the range that fits use."""
    chosen = choice.for_description()
    names = make_labels(surveys)
    tables = [frequency_histogram(survey, chosen) for survey in surveys]
    reasons = [explain_too_few(survey, chosen, 1) for survey in surveys]
    describe_empty_units(surveys, chosen, [t.where(t["count"] > 0) for t in tables], ["count"], 1)

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys))
        for ax, name, table, reason in zip(axes, names, tables, reasons, strict=True):
            ax.axvspan(1, 5, color=PALE, alpha=0.3, lw=0, zorder=0)
            draw_histogram(ax, table)
            _use_log_counts(ax, table["count"])
            ax.set_xlim(0, max(5.25, float(table["high"].max())))
            ax.set_title(clean_label(name, 34))
            ax.set_xlabel(LOG_N)
            if reason:
                mark_empty(ax, reason)
            ax.set_ylabel("units")
            shorten_ticks(ax)

    caption = join_sentences(
        "Number of units by frequency.",
        captions.describe_corpora(surveys),
        captions.describe_units(surveys),
        captions.describe_population(chosen, surveys),
        captions.describe_fit_units(surveys, chosen, "Computed over", counted=True),
        f"Pale: the range {captions.RANGE} that fits use.",
    )
    data = pd.concat(
        [add_survey_column(table, name) for name, table in zip(names, tables, strict=True)], ignore_index=True
    )
    return Plate(data, caption, draw, panels_size(len(surveys)))


def _use_log_counts(ax: Axes, counts: pd.Series) -> None:
    """Use a logarithmic axis of counts, on which a bar of 1 has a visible height."""
    if counts.any():
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7)


def _bins(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"low": table["words"] - 0.5, "high": table["words"] + 0.5, "count": table["documents"]})


STYLES = {"q": (Q, BLACK, DASHES[0]), "m": (M, BLUE, DASHES[1]), "v": (V, VERMILLION, DASHES[2])}
ACROSS = 5
CUT = 1.5  # a spike of V higher than the next bar by this factor is cut off


@exhibit(
    "norm-variance/fig14",
    "norm-variance/fig15",
    "norm-variance/fig16",
    title="Histograms of Q, M and V over units, one panel per layer",
    needs=[UNITS],
    options=("layers", *FIT_OPTIONS[1:]),
)
def fig14(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw histograms of Q(X_t), M(X_t) and V(X_t) for each layer of each model."""
    chosen, names = choice.for_description(), make_labels(surveys)
    blocks = [
        {layer: unit_histogram(survey, layer, chosen) for layer in chosen.layers or survey.layer_names}
        for survey in surveys
    ]
    joined = [pd.concat(block.values()) for block in blocks]
    describe_empty_units(surveys, chosen, [table.where(table["count"] > 0) for table in joined], ["count"], 1)
    rows = [-(-len(block) // ACROSS) for block in blocks]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=rows).ravel()
        for part, name, block in zip(parts, names, blocks, strict=True):
            part.suptitle(clean_label(name), fontsize=9)
            _draw_block(part, block, f"no units{describe_filter(chosen)}")
        handles = [Line2D([], [], c=colour, ls=dash, lw=1.2) for _, colour, dash in STYLES.values()]
        figure.legend(handles, [label for label, *_ in STYLES.values()], loc="outside upper center", ncols=3)

    data = pd.concat(
        [
            add_survey_column(t.assign(layer=k), n)
            for n, block in zip(names, blocks, strict=True)
            for k, t in block.items()
        ],
        ignore_index=True,
    )
    caption = join_sentences(
        "Histograms of Q(Xₜ), M(Xₜ) and V(Xₜ) over units, one panel per layer.",
        captions.describe_corpora(surveys),
        captions.describe_units(surveys),
        captions.describe_population(chosen, surveys),
        captions.describe_massive(surveys, chosen),
        captions.describe_variant(chosen),
        captions.describe_fit_units(surveys, chosen, "Computed over"),
        "The last bin also has all values far above the upper quartile. A number in a panel is the height of a "
        "bar of V that is cut off.",
    )
    return Plate(data, caption, draw, (PAGE_WIDTH, 1.15 * sum(rows) + 0.35 * len(rows) + 0.25))


def _draw_block(figure: FigureBase, block: dict[int, pd.DataFrame], reason: str) -> None:
    down = -(-len(block) // ACROSS)
    axes = figure.subplots(down, min(ACROSS, len(block)), squeeze=False).ravel()
    for ax, (layer, bins) in zip(axes, block.items(), strict=False):
        for quantity, (_, colour, dash) in STYLES.items():
            draw_histogram_outline(ax, bins[bins["quantity"] == quantity], colour=colour, dash=dash)
        ax.set_title(f"layer {layer}", fontsize=7, pad=2)
        _cap(ax, bins)
        shorten_ticks(ax)
        ax.tick_params(labelsize=6)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=3))
        ax.yaxis.set_major_locator(MaxNLocator(nbins=3))
        if not bins["count"].any():
            mark_empty(ax, reason)
    for unused in axes[len(block) :]:
        unused.remove()


def _cap(ax: Axes, bins: pd.DataFrame) -> None:
    """Cut off a spike of V, which units that occur once cause, and write its height."""
    counts = bins["count"].to_numpy()
    tallest = int(counts.argmax())
    second = max(int(n) for place, n in enumerate(counts) if place != tallest)
    spike = bins.iloc[tallest]
    if spike["quantity"] != "v" or spike["count"] <= CUT * second or second == 0:
        ax.set_ylim(bottom=0)
        return
    ax.set_ylim(0, 1.15 * second)
    text = f" {int(spike['count']):,}"
    ax.annotate(text, (spike["high"], 1.12 * second), va="top", fontsize=5.5, c=STYLES["v"][1])
