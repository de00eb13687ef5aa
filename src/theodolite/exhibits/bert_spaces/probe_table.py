"""table1: the confidence of three probes in each class, for the displayed words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.errors import InputError
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.tables import fill_table, table_size
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import format_fixed

HEAD = ["survey", "layer_name", "probe", "word"]
HEADS = ["Model", "Vectors", "Probe", "Word", "Likeliest"]


@exhibit(
    "bert-spaces/table1",
    title="Confidence of three probes in each class, for the displayed words",
    kind="table",
    needs=[require_laboratory("probe", "theodolite probe MODEL --words FILE.csv --out DIR")],
    reads=(),
)
def probe_table(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the confidence in each class for every displayed word, the largest of a row in bold."""
    names = make_labels(surveys)
    data = pd.concat([_read_confidence(s).assign(survey=name) for s, name in zip(surveys, names, strict=True)])
    wide = data.pivot_table(
        index=HEAD, columns="label", values="confidence", sort=False, dropna=False, observed=True
    )
    keys = data[HEAD].drop_duplicates()
    wide = wide.reindex(pd.MultiIndex.from_frame(keys))
    shown, bold = _format_rows(keys, wide)
    caption = join_sentences(
        "Confidence in each class for words that no probe was trained on. Bold: the largest of each row.",
        *(_describe_scores(survey, name) for survey, name in zip(surveys, names, strict=True)),
        "[ ]: 95% intervals over folds.",
        _describe_undefined(data),
    )
    front = [*HEAD, "layer", "classes", "label"]
    ordered = data[[*front, "confidence", "confidence_sd", "undefined"]].reset_index(drop=True)

    def draw(figure: FigureBase) -> None:
        _draw_table(figure, shown, bold)

    return Plate(ordered, caption, draw, table_size(shown), shown)


def _read_confidence(survey: SurveyData) -> pd.DataFrame:
    if "confidence" not in survey.tables:
        raise InputError(
            f"bert-spaces/table1: {survey.folder or survey.model} has no displayed word; "
            "add one with `theodolite probe ... --show WORD`."
        )
    return survey.tables["confidence"]


def _format_rows(keys: pd.DataFrame, wide: pd.DataFrame) -> tuple[pd.DataFrame, list[int | None]]:
    """Return the formatted table, and the number of the likeliest class of each row, None if there is none."""
    values = wide.to_numpy(dtype=float)
    known = ~np.isnan(values).all(axis=1)
    bold = [int(np.nanargmax(row)) if is_known else None for row, is_known in zip(values, known, strict=True)]
    shown = keys.astype(str).reset_index(drop=True)
    shown["likeliest"] = ["–" if at is None else str(wide.columns[at]) for at in bold]
    shown.columns = pd.Index(HEADS)
    for number, label in enumerate(wide.columns):
        shown[str(label)] = [format_fixed(value, 2) for value in values[:, number]]
    return shown, bold


def _draw_table(figure: FigureBase, shown: pd.DataFrame, bold: Sequence[int | None]) -> None:
    """Draw the table with bold cells. The texts of the axes are in column order, each with its header first."""
    ax = figure.subplots()
    ax.set_axis_off()
    fill_table(ax, shown)
    for row, at in enumerate(bold):
        if at is not None:
            ax.texts[(len(HEADS) + at) * (len(shown) + 1) + row + 1].set_fontweight("bold")


def _describe_scores(survey: SurveyData, name: str) -> str:
    """State the accuracy of each probe on held-out words, with shuffled labels, and by guessing."""
    (probes,) = get_tables(survey, ["probes"])
    counts = survey.facts["counts"]
    omitted = ", ".join(f"{reason}: {count}" for reason, count in counts["left_out"].items())
    scores = [
        f"{rows['layer_name'].iloc[0]}: "
        + "; ".join(
            f"{row['probe']} {row['accuracy']:.2f} [{row['accuracy_low']:.2f}, {row['accuracy_high']:.2f}], "
            f"control {row['control']:.2f}"
            for row in rows.to_dict("records")
        )
        for _, rows in probes.groupby("layer_name", sort=False)
    ]
    words = clean_label(survey.facts["settings"]["words"]["name"])
    return (
        f"Held-out accuracy, and control with shuffled labels, of {clean_label(name)}: "
        f"{counts['words_a_class']} words in each of {counts['classes']} classes of {words}"
        f"{f' (omitted: {omitted})' if omitted else ''}, guessing {probes['baseline'].iloc[0]:.2f}. "
        f"{'. '.join(scores)}."
    )


def _describe_undefined(data: pd.DataFrame) -> str:
    reasons = data[data["undefined"] != ""].groupby("word", sort=False)["undefined"].first()
    return (
        f"–: {'; '.join(f'{clean_label(word)} ({reason})' for word, reason in reasons.items())}."
        if len(reasons)
        else ""
    )
