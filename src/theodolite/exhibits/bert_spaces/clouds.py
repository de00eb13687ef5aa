"""fig25: corpora by PCA, t-SNE and UMAP; fig26: their distributions; each as they are and at matched length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.errors import InputError
from theodolite.exhibits.bert_spaces.difference_vectors import last_layer
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns, legend_inches
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import WIDE, named
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.exhibits.style import BLACK, COLOURS, DASHES, MARKERS
from theodolite.exhibits.text import number, plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

CLOUDS = of_laboratory("clouds", "theodolite clouds MODEL A B --out DIR")
METHODS = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
LENGTHS = {"as-is": "as they are", "matched": "at matched length"}
METRICS = {"norm": "norm", "distance": "distance of a pair", "cosine": "cosine of a pair"}
BETWEEN = "between corpora"


@exhibit(
    "bert-spaces/fig25",
    title="Corpora by PCA, t-SNE and UMAP, with their measured separation",
    needs=[CLOUDS],
    options=("layer",),
    reads=(),
)
def fig25(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the documents of every corpus on a plane, a row for each way of cutting them, a column a method."""
    data = _tables(surveys, choice, "places")
    if not len(data):
        raise InputError("bert-spaces/fig25 draws projections, and this folder was made with --projections none.")
    apart = _tables(surveys, choice, "separations")
    methods = [name for name in METHODS if name in set(data["method"])]
    rows = _rows(data)
    corpora = list(dict.fromkeys(data["corpus"]))
    width = WIDE if len(methods) > 1 else 3.4

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(rows), len(methods), squeeze=False)
        for across, (name, lengths) in zip(axes, rows, strict=True):
            here = data[(data["survey"] == name) & (data["lengths"] == lengths)]
            for ax, method in zip(across, methods, strict=True):
                _scatter(ax, here[here["method"] == method], corpora)
                ax.set_title(METHODS[method])
            across[0].set_ylabel(_told_row(name, lengths, surveys), fontsize=7.5)
        _legend(figure, corpora, width)

    told = caption(
        "Documents of the corpora, a mark each, projected by seeded methods; t-SNE and UMAP keep neighbours, not "
        "distances.",
        _sentences(apart, len(surveys) > 1),
        _sources(surveys),
    )
    size = width, 2.15 * len(rows) + legend_inches(corpora, width)
    return Plate(data, told, draw, size)


@exhibit(
    "bert-spaces/fig26",
    title="Distributions of norms, distances and cosines of corpora",
    needs=[CLOUDS],
    options=("layer",),
    reads=(),
)
def fig26(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw histograms of norms, distances and cosines within every corpus and between them."""
    data = _tables(surveys, choice, "histograms")
    rows = _rows(data)
    corpora = list(dict.fromkeys(data["corpus_a"]))

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(rows), len(METRICS), squeeze=False)
        for across, (name, lengths) in zip(axes, rows, strict=True):
            here = data[(data["survey"] == name) & (data["lengths"] == lengths)]
            for ax, metric in zip(across, METRICS, strict=True):
                _outlines(ax, here[here["metric"] == metric], corpora)
                ax.set_xlabel(METRICS[metric])
            across[0].set_ylabel(_told_row(name, lengths, surveys), fontsize=7.5)
        _legend(figure, corpora, WIDE, between=True)

    told = caption(
        "Shares of documents by norm, and of pairs of documents by distance and cosine, within a corpus and "
        "between two. Every outline has the same area.",
        _positive(_tables(surveys, choice, "summaries")),
        _sources(surveys),
    )
    size = WIDE, 1.75 * len(rows) + legend_inches([*corpora, BETWEEN], WIDE)
    return Plate(data, told, draw, size)


def _tables(surveys: Sequence[Surveyed], choice: Choice, name: str) -> pd.DataFrame:
    found = []
    for survey, label in zip(surveys, labels(surveys), strict=True):
        table = tables_of(survey, [name])[0]
        found.append(named(table[table["layer"] == one_layer(choice, last_layer(survey))], label))
    return pd.concat(found, ignore_index=True)


def _rows(data: pd.DataFrame) -> list[tuple[str, str]]:
    """Return what a row of panels is of, those without a document left out."""
    return list(dict.fromkeys(zip(data["survey"], data["lengths"], strict=True)))


def _told_row(name: str, lengths: str, surveys: Sequence[Surveyed]) -> str:
    return LENGTHS[lengths] if len(surveys) == 1 else f"{plain(name, 24)}\n{LENGTHS[lengths]}"


def _scatter(ax: Axes, places: pd.DataFrame, corpora: Sequence[str]) -> None:
    """Draw clouds in turn by document, so that none hides another."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(True)
    small = max(2.5, min(12.0, 3000 / max(len(places), 1)))
    for chunk in range(4):
        for at, name in enumerate(corpora):
            here = places[(places["corpus"] == name) & (places["document"] % 4 == chunk)]
            dots: dict[str, Any] = {
                "s": small,
                "c": COLOURS[at % len(COLOURS)],
                "marker": MARKERS[at % len(MARKERS)],
            }
            ax.scatter(
                here["x"].to_numpy(np.float64),
                here["y"].to_numpy(np.float64),
                alpha=0.6,
                linewidths=0,
                zorder=2 + chunk,
                rasterized=len(places) > 3000,
                **dots,
            )


def _outlines(ax: Axes, bins: pd.DataFrame, corpora: Sequence[str]) -> None:
    for (a, b), rows in bins.groupby(["corpus_a", "corpus_b"], sort=False):
        edges = np.append(rows["low"].to_numpy(np.float64), float(rows["high"].iloc[-1]))
        shares = rows["share"].to_numpy(np.float64)
        at = corpora.index(str(a))
        colour, dash = (COLOURS[at % len(COLOURS)], "-") if a == b else (BLACK, DASHES[2])
        ax.stairs(shares, edges, color=colour, ls=dash, lw=1.0)
        if a == b:
            ax.stairs(shares, edges, fill=True, color=colour, alpha=0.14)
    ax.set_yticks([])
    ax.set_ylim(bottom=0)
    short_ticks(ax)


def _legend(figure: FigureBase, corpora: Sequence[str], width: float, *, between: bool = False) -> None:
    told = [plain(name) for name in corpora]
    if between:
        handles = [Line2D([], [], c=COLOURS[at % len(COLOURS)], lw=1.4) for at in range(len(corpora))]
        handles.append(Line2D([], [], c=BLACK, ls=DASHES[2], lw=1.2))
        told.append(BETWEEN)
    else:
        handles = [
            Line2D([], [], c=COLOURS[at % len(COLOURS)], marker=MARKERS[at % len(MARKERS)], ls="", ms=4)
            for at in range(len(corpora))
        ]
    figure.legend(handles, told, loc="outside upper center", ncols=legend_columns(told, width))


def _sentences(apart: pd.DataFrame, several: bool) -> str:
    """Say how far the clouds are apart, in numbers."""
    told = []
    for row in apart.to_dict("records"):
        who = f"{row['survey']}, " if several else ""
        head = f"{who}{row['corpus_a']} and {row['corpus_b']} {LENGTHS[row['lengths']]}"
        if np.isnan(row["accuracy"]):
            told.append(f"{head}: not measured ({row['reason']})")
            continue
        told.append(
            f"{head} ({row['n']} documents each, {row['tokens_a']:.0f} and {row['tokens_b']:.0f} tokens): a line "
            f"tells {row['accuracy']:.1%} [{row['accuracy_low']:.1%}, {row['accuracy_high']:.1%}] of unseen "
            f"documents right (p {number(row['accuracy_p'], 2)}), length alone {row['length_accuracy']:.1%}; "
            f"energy distance {row['energy_share']:.1%} of the distance between (p {number(row['energy_p'], 2)})"
        )
    return ". ".join(told) + "."


def _positive(summaries: pd.DataFrame) -> str:
    """Say how many cosines within a corpus are negative: the thesis found none."""
    within = summaries[(summaries["metric"] == "cosine") & (summaries["corpus_a"] == summaries["corpus_b"])]
    within = within[(within["n"] > 0) & (within["lengths"] == "as-is")]
    told = [f"{row['corpus_a']} {row['negative']:.1%}" for row in within.to_dict("records")]
    return f"Negative cosines within a corpus as it is: {', '.join(told)}." if told else ""


def _sources(surveys: Sequence[Surveyed]) -> str:
    told = []
    for survey in surveys:
        settings = survey.facts["settings"]
        cut = settings["matched_tokens"]
        matched = f"matched: all cut to {cut} tokens" if cut else "none matched"
        told.append(
            f"{survey.model}, pooling: {settings['pooling']}, up to {settings['max_tokens']} tokens a document; "
            f"{matched}"
        )
    return "; ".join(dict.fromkeys(told)) + "."
