"""fig12 and table3: tokens against the mean embedding."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.weighed import WEIGHED, models, one_model, plate_of_tokens
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.steps import draw_bins
from theodolite.exhibits.style import VERMILLION
from theodolite.exhibits.text import number
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed

MEAN = "mean of words"
HEADS = {
    "distance": "distance",
    "abs_cosine": "|cosine|",
    "abs_dot": "|dot product|",
    "cosine": "cosine",
    "dot": "dot product",
    "norm": "norm",
}


@exhibit("bert-spaces/fig12", title="Tokens against the mean embedding", needs=[WEIGHED], reads=())
def fig12(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw histograms of the tokens' norms and of their distance, cosine and dot product to the mean."""
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
                draw_bins(ax, of, linewidth=0)
                ax.axvline(mean, c=VERMILLION, lw=1.0, ls="--", zorder=3)
                ax.set_title(f"mean {number(mean)}", fontsize=7, c=VERMILLION)
                short_ticks(ax)
            axes[2 * at][0].set_ylabel("tokens" if len(surveys) == 1 else f"{one_model(survey)}\ntokens")
            axes[2 * at + 1][0].set_ylabel("tokens")

    told = caption(
        "How many tokens lie how far from the mean of all word vectors, at what cosine and dot product, and how",
        "long they are. Dashed: the mean of each.",
        models(surveys),
    )
    data = pd.concat([named(bins, survey.model) for survey, bins in zip(surveys, shown, strict=True)])
    return Plate(data.reset_index(drop=True), told, draw, (7.0, 3.2 * len(surveys)))


@exhibit(
    "bert-spaces/table3",
    title="Extreme tokens against the mean embedding",
    kind="table",
    needs=[WEIGHED],
    reads=(),
)
def table3(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List the tokens of the largest and the smallest value of each metric."""
    data = pd.concat([named(tables_of(s, ["mean_extremes"])[0], s.model) for s in surveys], ignore_index=True)
    rows = []
    for (survey, token), group in data.groupby(["survey", "text"], sort=False):
        marks = dict(zip(group["metric"], group["which"], strict=True))
        first = group.iloc[0]
        cells = {
            head: number(float(first[column])) + {"largest": " ▲", "smallest": " ▼"}.get(marks.get(column, ""), "")
            for column, head in HEADS.items()
        }
        model = {"model": survey} if len(surveys) > 1 else {}
        rows.append({**model, "token": str(token).strip(), **cells})
    shown = pd.DataFrame(rows, columns=[*(["model"] if len(surveys) > 1 else []), "token", *HEADS.values()])
    told = caption(
        "Tokens with the largest (▲) or the smallest (▼) value of a column, against the mean of all word vectors,",
        "among tokens of at least three Latin letters and nothing else that can begin a word.",
        models(surveys),
    )
    return plate_of_tokens(data, shown, told)


def _bins(survey: Surveyed) -> pd.DataFrame:
    bins, pairs = tables_of(survey, ["histograms", "pairs"])
    of = (bins["left"] == "words") & ((bins["right"] == MEAN) | (bins["metric"] == "norm"))
    means = pairs[["left", "right", "metric", "n", "mean"]]
    return bins[of].merge(means, on=["left", "right", "metric"]).reset_index(drop=True)
