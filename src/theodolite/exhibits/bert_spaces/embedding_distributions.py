"""fig10, fig12, fig14 and table3: distributions within embedding tables, and of tokens with the mean embedding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from theodolite.exhibits.bert_spaces.weights import WEIGHTS, describe_models, make_token_table, model_name
from theodolite.exhibits.drawing.axes import shorten_ticks
from theodolite.exhibits.drawing.bars import draw_histogram
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.style import BLUE, DASHES, GREY, VERMILLION
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables
from theodolite.text import format_scientific

TRAINED = "trained positions"
FEW = 4  # histograms of at most this many bin edges are shown completely
OUTSIDE = 5e-3
PANELS = {
    "norm": "norm",
    "distance": "distance of pairs",
    "dot": "dot product of pairs",
    "cosine": "cosine of pairs",
}


@exhibit(
    "bert-spaces/fig10",
    title="Norms, distances, dot products and cosines of input and positional embeddings",
    needs=[WEIGHTS],
    reads=(),
)
def fig10(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw distributions within the table of words and within the table of positions, one row per model."""
    caption = join_sentences(
        "Norms, and distances, dot products and cosines over all pairs of distinct rows, within the table of",
        "words and within the table of positions, each relative to its peak. Lines: means. The axes omit 0.5% of",
        "the values at either end.",
        _describe_missing(surveys),
        describe_models(surveys),
    )
    return _make_plate(surveys, ["positions"] * len(surveys), caption)


TAIL = Need(
    "models with untrained positions at the end of their table",
    lambda survey: survey.facts["found"]["untrained_from"] is not None,
    lambda survey: f"the test found none in {survey.model}, so the figure would repeat bert-spaces/fig10",
    reason=lambda survey: "no untrained positions: as in fig10",
)


@exhibit(
    "bert-spaces/fig14",
    title="The distributions of fig10 without the untrained positions",
    needs=[WEIGHTS, TAIL],
    reads=(),
)
def fig14(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the distributions of fig10 without the positions that a test finds untrained."""
    found = [
        f"{survey.model}: positions from {survey.facts['found']['untrained_from']} on are untrained and excluded."
        for survey in surveys
    ]
    caption = join_sentences(
        "As fig10, without positions at the end of the table that a test finds untrained.",
        *found,
        describe_models(surveys),
    )
    return _make_plate(surveys, [TRAINED] * len(surveys), caption)


def _make_plate(surveys: Sequence[SurveyData], tables: Sequence[str], caption: str) -> Plate:
    shown = [_read_histograms(survey, table) for survey, table in zip(surveys, tables, strict=True)]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(surveys), len(PANELS), squeeze=False)
        for row, survey, bins in zip(axes, surveys, shown, strict=True):
            for ax, (metric, label) in zip(row, PANELS.items(), strict=True):
                _panel(ax, bins[bins["metric"] == metric])
                ax.set_xlabel(label)
            row[0].set_ylabel("relative to peak" if len(surveys) == 1 else model_name(survey))

    data = pd.concat([add_survey_column(bins, survey.model) for survey, bins in zip(surveys, shown, strict=True)])
    return Plate(data.reset_index(drop=True), caption, draw, (7.0, 0.35 + 1.75 * len(surveys)))


def _read_histograms(survey: SurveyData, positions: str) -> pd.DataFrame:
    """Return the histograms within each table, with their means."""
    bins, pairs = get_tables(survey, ["histograms", "pairs"])
    within = bins[
        bins["left"].isin(["words", positions]) & ((bins["right"] == bins["left"]) | (bins["right"] == ""))
    ]
    means = pairs[["left", "right", "metric", "n", "mean"]]
    return within.merge(means, on=["left", "right", "metric"]).reset_index(drop=True)


def _panel(ax: Axes, bins: pd.DataFrame) -> None:
    """Draw histograms relative to their peaks, so that tables of very different size can share a panel."""
    ends = []
    for place, (table, colour) in enumerate({"words": BLUE, "positions": VERMILLION}.items()):
        of = bins[bins["left"].isin([table, f"trained {table}"]) & np.isfinite(bins["high"] - bins["low"])]
        if not len(of):
            continue
        edges = np.append(of["low"].to_numpy(), of["high"].iloc[-1])
        share = of["count"].to_numpy() / of["count"].max()
        ax.stairs(share, edges, fill=True, color=colour, alpha=0.15)
        ax.stairs(share, edges, color=colour, lw=1.0, ls=DASHES[place], label=str(of["left"].iloc[0]))
        ends.append((edges[0], edges[-1]) if len(edges) <= FEW else _central_range(of, edges))
        ax.axvline(float(of["mean"].iloc[0]), c=colour, lw=0.8, ls=DASHES[place])
        name = f"{of['left'].iloc[0]}, " if ax.get_subplotspec().is_first_col() else ""  # type: ignore[union-attr]
        mean = f"{name}mean {format_scientific(float(of['mean'].iloc[0]))}"
        ax.text(0, 1.02 + 0.1 * (1 - place), mean, c=colour, fontsize=6.5, transform=ax.transAxes)
    if ends:
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.set_ylim(0, 1.05)
    ax.set_yticks([])
    ax.axhline(0, c=GREY, lw=0.5)


def _central_range(bins: pd.DataFrame, edges: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range of the bins without 0.5% of the values at either end."""
    share = bins["count"].cumsum().to_numpy() / bins["count"].sum()
    first, last = np.searchsorted(share, [OUTSIDE, 1 - OUTSIDE])
    return float(edges[first]), float(edges[min(last + 1, len(edges) - 1)])


def _describe_missing(surveys: Sequence[SurveyData]) -> str:
    """Name the models without a table of positions."""
    names = [survey.model for survey in surveys if "positions" not in survey.facts["found"]["tables"]]
    return f"{', '.join(dict.fromkeys(names))}: no table of positions." if names else ""


MEAN = "mean of words"
HEADS = {
    "distance": "distance",
    "abs_cosine": "|cosine|",
    "abs_dot": "|dot product|",
    "cosine": "cosine",
    "dot": "dot product",
    "norm": "norm",
}


@exhibit(
    "bert-spaces/fig12",
    title="Distance, cosine and dot product of tokens with the mean embedding",
    needs=[WEIGHTS],
    reads=(),
)
def fig12(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw histograms of the norms of tokens, and of their distance, cosine and dot product with the mean."""
    shown = [_bins(survey) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(2 * len(surveys), 3, squeeze=False)
        for at, (survey, bins) in enumerate(zip(surveys, shown, strict=True)):
            for ax, (metric, label) in zip(axes[2 * at : 2 * at + 2].ravel(), HEADS.items(), strict=True):
                of = bins[bins["metric"] == metric]
                ax.set_xlabel(label)
                if not len(of):
                    continue
                mean = float(of["mean"].iloc[0])
                draw_histogram(ax, of, linewidth=0)
                ax.axvline(mean, c=VERMILLION, lw=1.0, ls="--", zorder=3)
                ax.set_title(f"mean {format_scientific(mean)}", fontsize=7, c=VERMILLION)
                shorten_ticks(ax)
            axes[2 * at][0].set_ylabel("tokens" if len(surveys) == 1 else f"{model_name(survey)}\ntokens")
            axes[2 * at + 1][0].set_ylabel("tokens")

    caption = join_sentences(
        "Histograms of the distance, cosine and dot product of word vectors with the mean of all word vectors,",
        "and of their norms. Dashed: means.",
        describe_models(surveys),
    )
    data = pd.concat([add_survey_column(bins, survey.model) for survey, bins in zip(surveys, shown, strict=True)])
    return Plate(data.reset_index(drop=True), caption, draw, (7.0, 3.2 * len(surveys)))


@exhibit(
    "bert-spaces/table3",
    title="Tokens with extreme distance, cosine or dot product with the mean embedding",
    kind="table",
    needs=[WEIGHTS],
    reads=(),
)
def table3(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the tokens with the largest and the smallest value of each metric."""
    data = pd.concat(
        [add_survey_column(get_tables(s, ["mean_extremes"])[0], s.model) for s in surveys], ignore_index=True
    )
    rows = []
    for (survey, token), group in data.groupby(["survey", "text"], sort=False):
        marks = dict(zip(group["metric"], group["which"], strict=True))
        first = group.iloc[0]
        cells = {
            head: format_scientific(float(first[column]))
            + {"largest": " ▲", "smallest": " ▼"}.get(marks.get(column, ""), "")
            for column, head in HEADS.items()
        }
        model = {"model": survey} if len(surveys) > 1 else {}
        rows.append({**model, "token": str(token).strip(), **cells})
    shown = pd.DataFrame(rows, columns=[*(["model"] if len(surveys) > 1 else []), "token", *HEADS.values()])
    caption = join_sentences(
        "Tokens with the largest (▲) or the smallest (▼) value of a column, against the mean of all word vectors,",
        "among tokens that can begin a word and consist of at least three Latin letters.",
        describe_models(surveys),
    )
    return make_token_table(data, shown, caption)


def _bins(survey: SurveyData) -> pd.DataFrame:
    bins, pairs = get_tables(survey, ["histograms", "pairs"])
    of = (bins["left"] == "words") & ((bins["right"] == MEAN) | (bins["metric"] == "norm"))
    means = pairs[["left", "right", "metric", "n", "mean"]]
    return bins[of].merge(means, on=["left", "right", "metric"]).reset_index(drop=True)
