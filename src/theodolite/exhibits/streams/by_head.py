"""heads and sinks: queries and keys, and the weight that attention gives to sinks, by head and block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import describe_corpora, describe_population, join_sentences
from theodolite.exhibits.drawing.heatmap import draw_heat
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, make_labels

Panels = dict[str, tuple[str, pd.DataFrame, float | None]]
"""By title: the column, its rows (number, head), and the limit of the colours; None: their largest numbers."""


def _has_heads(survey: SurveyData) -> bool:
    streams = survey.tables.get("streams", pd.DataFrame({"stream": [], "head": []}))
    return {"q", "k"} <= set(streams.loc[streams["head"].notna(), "stream"])


def _explain_no_heads(survey: SurveyData) -> str:
    command = survey.command("--streams", "residual,q/heads,k/heads")
    return f"the survey of {survey.model} has no queries and keys by head; to have them, run `{command}`"


HEADS = Need("surveys of queries and keys by head", _has_heads, _explain_no_heads, lambda survey: "no heads")
LOGITS = Need(
    "surveys made with `--attention`",
    lambda survey: bool(len(survey.tables.get("attention", ()))),
    lambda survey: (
        f"the attention of {survey.model} was not measured; to measure it, run `{survey.command('--attention')}`"
    ),
    lambda survey: "attention not measured",
)


@exhibit(
    "streams/heads",
    title="Median norm and mean cosine of queries and keys, by head and block",
    needs=[HEADS],
    options=("population",),
    reads=("layers", "streams"),
)
def heads(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw four heat maps per survey: norms and cosines of queries and of keys, before rotation."""
    rows: list[tuple[str, Panels]] = []
    tables = []
    for survey, name in zip(surveys, make_labels(surveys), strict=True):
        table = survey.tables["streams"]
        table = table[(table["population"] == choice.population) & table["head"].notna()]
        table = table[["number", "block", "stream", "head", "norm_p50", "mean_cosine"]]
        table = table.astype({"head": "int64", "norm_p50": "float64", "mean_cosine": "float64"})
        tables.append(add_survey_column(table[table["stream"].isin(["q", "k"])], name))
        q, k = (table[table["stream"] == stream] for stream in ("q", "k"))
        rows.append(
            (
                name,
                {
                    "norm of queries": ("norm_p50", q, None),
                    "norm of keys": ("norm_p50", k, None),
                    "cosine of queries": ("mean_cosine", q, 1.0),
                    "cosine of keys": ("mean_cosine", k, 1.0),
                },
            )
        )
    caption = join_sentences(
        "Median norm, and mean cosine of all pairs, of the queries and keys of every head, before rotation.",
        describe_corpora(surveys),
        describe_population(choice, surveys),
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, _draw_maps(rows), (7.0, 2.3 * len(rows)))


@exhibit(
    "streams/sinks",
    title="Weight that attention gives to the first position and to the strongest key, by head and block",
    needs=[LOGITS],
    options=("population",),
    reads=("layers", "attention"),
    populations=("without-first", "all"),
)
def sinks(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw three heat maps per survey: the weight of the first position, of the strongest key, and the entropy."""
    rows: list[tuple[str, Panels]] = []
    tables = []
    for survey, name in zip(surveys, make_labels(surveys), strict=True):
        table = survey.tables["attention"]
        table = table[table["population"] == choice.population].rename(columns={"layer": "number"})
        tables.append(add_survey_column(table, name))
        rows.append(
            (
                name,
                {
                    "weight of the first position": ("first_mass", table, 1.0),
                    "weight of the strongest key": ("top_mass", table, 1.0),
                    "entropy, share of its maximum": ("entropy_share", table, 1.0),
                },
            )
        )
    caption = join_sentences(
        "Mean weight of the first position of a window; largest mean weight of one key of a window; mean entropy "
        "of the weights of a query over the logarithm of its keys.",
        describe_corpora(surveys),
        "Queries: all." if choice.population == "all" else "Queries: all but the first position of each window.",
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, _draw_maps(rows), (7.0, 2.3 * len(rows)))


def _draw_maps(rows: Sequence[tuple[str, Panels]]) -> Callable[[FigureBase], None]:
    """Return a function that draws one row of heat maps per survey."""

    def draw(figure: FigureBase) -> None:
        across = max(len(panels) for _, panels in rows)
        axes = figure.subplots(len(rows), across, squeeze=False)
        for line, (name, panels) in zip(axes, rows, strict=True):
            for ax, (title, (column, table, limit)) in zip(line, panels.items(), strict=True):
                signed = bool((table[column] < 0).any())
                image = draw_heat(ax, table, "number", "head", column, limit, positive=not signed)
                ax.set_title(title)
                ax.set_ylabel("")
                ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
                ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
                figure.colorbar(image, ax=ax, fraction=0.08, pad=0.03)
            line[0].set_ylabel(f"{clean_label(name)}\nblock")

    return draw
