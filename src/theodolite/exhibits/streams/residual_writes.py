"""writes: what attention and the MLP write to the residual stream, by block."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import describe_corpora, describe_population, join_sentences
from theodolite.exhibits.drawing.panels import make_panels, panels_size
from theodolite.exhibits.drawing.style import GREY, get_line_style
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, make_labels

PARTS = {"attn": "attention", "cross": "cross-attention", "mlp": "MLP"}


def _has_writes(survey: SurveyData) -> bool:
    streams = survey.tables.get("streams", pd.DataFrame({"stream": []}))["stream"]
    return {"residual", "attn", "mlp"} <= set(streams)


def _explain_no_writes(survey: SurveyData) -> str:
    command = survey.command("--streams", "residual,attn,mlp")
    return f"the survey of {survey.model} has not all of them; to have them, run `{command}`"


WRITES = Need(
    "surveys of the streams residual, attn and mlp", _has_writes, _explain_no_writes, lambda survey: "no writes"
)


@exhibit(
    "streams/writes",
    title="Squared norm of what attention and the MLP write, over that of the state that enters the block",
    needs=[WRITES],
    options=("population",),
    reads=("layers", "streams"),
)
def writes(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw Q of each part over Q of the input of the block, one panel per survey."""
    names = make_labels(surveys)
    tables = [_share_of_input(survey.tables["streams"], choice.population) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        for ax, name, table in zip(make_panels(figure, len(tables)), names, tables, strict=True):
            for number, (stream, label) in enumerate(PARTS.items()):
                rows, style = table[table["stream"] == stream], get_line_style(number)
                if len(rows):
                    marks = {"marker": style.marker, "ls": style.dash, "ms": 3.2, "lw": 1.1}
                    ax.plot(rows["number"], rows["share"], c=style.colour, label=label, **marks)
            ax.axhline(1, c=GREY, lw=0.6, zorder=0)
            ax.set(yscale="log", xlabel="block", title=clean_label(name))
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
            ax.legend(loc="best")

    caption = join_sentences(
        "Mean squared norm of what each part of a block adds to the residual stream, over that of the state that "
        "enters the block (grey line: equal).",
        describe_corpora(surveys),
        describe_population(choice, surveys),
    )
    data = [add_survey_column(table, name) for table, name in zip(tables, names, strict=True)]
    return Plate(pd.concat(data, ignore_index=True), caption, draw, panels_size(len(tables), height=2.5))


def _share_of_input(streams: pd.DataFrame, population: str) -> pd.DataFrame:
    """Return Q of every write over Q of the layer before its block."""
    rows = streams[(streams["population"] == population) & streams["head"].isna()]
    q = rows[rows["stream"] == "residual"].set_index("layer")["q"]
    parts = rows[rows["stream"].isin(list(PARTS))][["number", "block", "stream", "q"]]
    entering = parts["number"].map(lambda number: q.get(number - 1, float("nan")))
    return parts.assign(share=parts["q"].astype(float) / entering.astype(float)).reset_index(drop=True)
