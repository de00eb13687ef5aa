"""fig25 and fig26: documents of several corpora on a plane, and distributions within and between corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from theodolite.errors import InputError
from theodolite.exhibits.bert_spaces.contrast import last_layer
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import PAGE_WIDTH, legend_columns, legend_inches
from theodolite.exhibits.drawing.style import BLACK, COLOURS, DASHES, MARKERS
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import describe_pooling, format_scientific

CLOUDS = require_laboratory("clouds", "theodolite clouds MODEL A B --out DIR")
METHODS = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
LENGTHS = {"as-is": "original length", "matched": "matched length", "plain": "plain, matched length"}
METRICS = {
    "norm": "norm",
    "distance": "distance of pairs",
    "dot": "dot product of pairs",
    "cosine": "cosine of pairs",
}
BETWEEN = "between corpora"
OUTSIDE = 5e-3
CONTROLS = ("document length", "capitals", "punctuation", "unknown words")


@exhibit(
    "bert-spaces/fig25",
    title="Corpora by PCA, t-SNE and UMAP, and their separation",
    needs=[CLOUDS],
    options=("layer",),
    reads=(),
)
def fig25(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the documents of every corpus, one row each for original and matched length, one column per method."""
    data = _read_tables(surveys, choice, "places")
    if not len(data):
        raise InputError("bert-spaces/fig25 draws projections, but this folder was made with --projections none.")
    separations = _read_tables(surveys, choice, "separations")
    shares = _read_tables(surveys, choice, "axes")
    methods = [name for name in METHODS if name in set(data["method"])]
    rows = _list_rows(data)
    corpora = list(dict.fromkeys(data["corpus"]))
    width = PAGE_WIDTH if len(methods) > 1 else 3.4

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(rows), len(methods), squeeze=False)
        for across, (name, lengths) in zip(axes, rows, strict=True):
            selected = data[(data["survey"] == name) & (data["lengths"] == lengths)]
            for ax, method in zip(across, methods, strict=True):
                _draw_documents(ax, selected[selected["method"] == method], corpora)
                ax.set_title(METHODS[method])
                _label_components(
                    ax, shares.query("survey == @name and lengths == @lengths and method == @method")
                )
            row = _label_row(name, lengths, surveys)
            across[0].set_ylabel("\n".join(filter(None, (row, across[0].get_ylabel()))), fontsize=7.5)
        _draw_legend(figure, corpora, width)

    caption = join_sentences(
        "Documents of the corpora, one mark per document. t-SNE and UMAP preserve neighbours, not distances. "
        "Plain: without capitals, punctuation and unknown words.",
        _describe_separations(separations, _count_documents(data), len(surveys) > 1),
        _describe_sources(surveys),
    )
    size = width, 2.3 * len(rows) + legend_inches(corpora, width)
    return Plate(data, caption, draw, size)


@exhibit(
    "bert-spaces/fig26",
    title="Distributions of norms, distances, dot products and cosines within and between corpora",
    needs=[CLOUDS],
    options=("layer",),
    reads=(),
)
def fig26(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw histograms of norms, distances, dot products and cosines within every corpus and between them."""
    data = _read_tables(surveys, choice, "histograms")
    metrics = [metric for metric in METRICS if metric in set(data["metric"])]
    rows = _list_rows(data)
    corpora = list(dict.fromkeys(data["corpus_a"]))

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(rows), len(metrics), squeeze=False)
        for across, (name, lengths) in zip(axes, rows, strict=True):
            selected = data[(data["survey"] == name) & (data["lengths"] == lengths)]
            for ax, metric in zip(across, metrics, strict=True):
                _draw_outlines(ax, selected[selected["metric"] == metric], corpora)
                ax.set_xlabel(METRICS[metric])
                ax.set_xlim(*_central_range(data[(data["survey"] == name) & (data["metric"] == metric)]))
            across[0].set_ylabel(f"{_label_row(name, lengths, surveys)}\nshare per bin", fontsize=7.5)
        _draw_legend(figure, corpora, PAGE_WIDTH, between=True)

    caption = join_sentences(
        "Distributions of the norms of documents, and of the distances, dot products and cosines of pairs of "
        "documents within a corpus and between two corpora. The shares of each histogram sum to 100%. The axes "
        "omit 0.5% of the values at either end.",
        _describe_negative(_read_tables(surveys, choice, "summaries")),
        _describe_sources(surveys),
    )
    size = PAGE_WIDTH, 1.75 * len(rows) + legend_inches([*corpora, BETWEEN], PAGE_WIDTH)
    return Plate(data, caption, draw, size)


def _read_tables(surveys: Sequence[SurveyData], choice: Choice, name: str) -> pd.DataFrame:
    found = []
    for survey, label in zip(surveys, make_labels(surveys), strict=True):
        table = get_tables(survey, [name])[0]
        found.append(add_survey_column(table[table["layer"] == one_layer(choice, last_layer(survey))], label))
    return pd.concat(found, ignore_index=True)


def _list_rows(data: pd.DataFrame) -> list[tuple[str, str]]:
    """Return survey and lengths of each row of panels that has documents."""
    return list(dict.fromkeys(zip(data["survey"], data["lengths"], strict=True)))


def _label_row(name: str, lengths: str, surveys: Sequence[SurveyData]) -> str:
    return LENGTHS[lengths] if len(surveys) == 1 else f"{clean_label(name, 24)}\n{LENGTHS[lengths]}"


def _draw_documents(ax: Axes, places: pd.DataFrame, corpora: Sequence[str]) -> None:
    """Draw documents of all corpora alternately, so that no corpus hides another."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(True)
    small = max(2.5, min(12.0, 3000 / max(len(places), 1)))
    for chunk in range(4):
        for at, name in enumerate(corpora):
            selected = places[(places["corpus"] == name) & (places["document"] % 4 == chunk)]
            dots: dict[str, Any] = {
                "s": small,
                "c": COLOURS[at % len(COLOURS)],
                "marker": MARKERS[at % len(MARKERS)],
            }
            ax.scatter(
                selected["x"].to_numpy(np.float64),
                selected["y"].to_numpy(np.float64),
                alpha=0.6,
                linewidths=0,
                zorder=2 + chunk,
                rasterized=len(places) > 3000,
                **dots,
            )


def _draw_outlines(ax: Axes, bins: pd.DataFrame, corpora: Sequence[str]) -> None:
    for (a, b), rows in bins.groupby(["corpus_a", "corpus_b"], sort=False):
        edges = np.append(rows["low"].to_numpy(np.float64), float(rows["high"].iloc[-1]))
        shares = rows["share"].to_numpy(np.float64)
        at = corpora.index(str(a))
        colour, dash = (COLOURS[at % len(COLOURS)], "-") if a == b else (BLACK, DASHES[2])
        ax.stairs(shares, edges, color=colour, ls=dash, lw=1.0)
        if a == b:
            ax.stairs(shares, edges, fill=True, color=colour, alpha=0.14)
    ax.set_ylim(bottom=0)
    shorten_ticks(ax)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=3))
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.tick_params(axis="y", labelsize=6)


def _central_range(bins: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the bins without 0.5% of the values at either end of each histogram."""
    ends = []
    for _, rows in bins.groupby(["lengths", "corpus_a", "corpus_b"], sort=False):
        share = rows["share"].cumsum().to_numpy()
        if share[-1] > 0:
            first, last = np.searchsorted(share, [OUTSIDE, 1 - OUTSIDE])
            ends.append((rows["low"].iloc[first], rows["high"].iloc[min(last, len(rows) - 1)]))
    low, high = (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else (0.0, 1.0)
    return float(low), float(high)


def _draw_legend(figure: FigureBase, corpora: Sequence[str], width: float, *, between: bool = False) -> None:
    labels = [clean_label(name) for name in corpora]
    if between:
        handles = [Line2D([], [], c=COLOURS[at % len(COLOURS)], lw=1.4) for at in range(len(corpora))]
        handles.append(Line2D([], [], c=BLACK, ls=DASHES[2], lw=1.2))
        labels.append(BETWEEN)
    else:
        handles = [
            Line2D([], [], c=COLOURS[at % len(COLOURS)], marker=MARKERS[at % len(MARKERS)], ls="", ms=4)
            for at in range(len(corpora))
        ]
    figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns(labels, width))


def _label_components(ax: Axes, shares: pd.DataFrame) -> None:
    """Write the shares of variance of principal components on the axes; other methods have none."""
    known = shares.sort_values("axis")["share"].dropna().tolist()
    for axis, number, share in zip((ax.xaxis, ax.yaxis), (1, 2), known, strict=False):
        axis.set_label_text(f"component {number} ({share:.0%})", fontsize=7)


def _count_documents(places: pd.DataFrame) -> Mapping[Any, int]:
    """Return the number of documents drawn by survey, lengths and corpus."""
    first = places[places["method"] == places["method"].iloc[0]]
    return Counter(zip(first["survey"], first["lengths"], first["corpus"], strict=True))


def _describe_separations(separations: pd.DataFrame, drawn: Mapping[Any, int], several: bool) -> str:
    """State the separation of every two corpora, and how many documents are drawn and compared."""
    sentences = []
    for row in separations.to_dict("records"):
        who = f"{row['survey']}, " if several else ""
        head = f"{who}{row['corpus_a']} and {row['corpus_b']}, {LENGTHS[row['lengths']]}"
        if np.isnan(row["accuracy"]):
            sentences.append(f"{head}: not measured ({row['reason']})")
            continue
        accuracy = f"{row['accuracy']:.1%} [{row['accuracy_low']:.1%}, {row['accuracy_high']:.1%}]"
        counts = [drawn.get((row["survey"], row["lengths"], row[f"corpus_{side}"]), 0) for side in "ab"]
        compared = f", of which {row['n']} of each are compared" if set(counts) != {row["n"]} else ""
        sentences.append(
            f"{head} ({counts[0]} and {counts[1]} documents{compared}, {row['tokens_a']:.0f} and "
            f"{row['tokens_b']:.0f} tokens on average): a "
            f"linear classifier assigns {accuracy} of unseen documents correctly "
            f"(p {format_scientific(row['accuracy_p'], 2)}), {_describe_controls(row)}; "
            f"the energy distance is {row['energy_share']:.1%} "
            f"of the mean distance between the corpora (p {format_scientific(row['energy_p'], 2)})"
        )
    return ". ".join(sentences) + "."


def _describe_controls(row: Mapping[Any, Any]) -> str:
    """State what classifiers assign correctly that see only length, capitals, punctuation or unknown words."""
    kinds = zip(("length", "casing", "punctuation", "unknown"), CONTROLS, strict=True)
    found = {words: row.get(f"{kind}_accuracy", np.nan) for kind, words in kinds}
    return ", ".join(f"{words} by itself {share:.1%}" for words, share in found.items() if share == share)


def _describe_negative(summaries: pd.DataFrame) -> str:
    """State the share of negative cosines within a corpus. The thesis found none."""
    within = summaries[(summaries["metric"] == "cosine") & (summaries["corpus_a"] == summaries["corpus_b"])]
    within = within[(within["n"] > 0) & (within["lengths"] == "as-is")]
    shares = [f"{row['corpus_a']} {row['negative']:.1%}" for row in within.to_dict("records")]
    return f"Share of negative cosines within a corpus (original length): {', '.join(shares)}." if shares else ""


def _describe_sources(surveys: Sequence[SurveyData]) -> str:
    sentences = []
    for survey in surveys:
        settings = survey.facts["settings"]
        cut = settings["matched_tokens"]
        matched = f"matched length: {cut} tokens" if cut else "no matched length"
        sentences.append(
            f"{survey.model}, {describe_pooling(settings)}, up to {settings['max_tokens']} tokens per document; "
            f"{matched}"
        )
    return "; ".join(dict.fromkeys(sentences)) + "."
