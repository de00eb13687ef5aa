"""table1: what three probes make of the displayed words, class by class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.printed_table import fill_table, table_size
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

HEAD = ["survey", "layer_name", "probe", "word"]
HEADS = ["Model", "Vectors", "Probe", "Word", "Likeliest"]


@exhibit(
    "bert-spaces/table1",
    title="Probe outputs: the displayed words' classes by no hidden layer, one hidden layer and boosted trees",
    kind="table",
    needs=[of_laboratory("probe", "theodolite probe MODEL --words FILE.csv --out DIR")],
    reads=(),
)
def probe_table(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Show the confidence by class for every displayed word; the largest of a row is bold, as in the thesis."""
    names = labels(surveys)
    data = pd.concat([_confidence(s).assign(survey=name) for s, name in zip(surveys, names, strict=True)])
    wide = data.pivot_table(
        index=HEAD, columns="label", values="confidence", sort=False, dropna=False, observed=True
    )
    keys = data[HEAD].drop_duplicates()
    wide = wide.reindex(pd.MultiIndex.from_frame(keys))
    shown, bold = _printed(keys, wide)
    told = caption(
        "Confidence by class of words that no probe was trained on, the largest of each row in bold.",
        *(_scores(survey, name) for survey, name in zip(surveys, names, strict=True)),
        "[ ]: 95% over folds.",
        _undefined(data),
    )
    front = [*HEAD, "layer", "classes", "label"]
    ordered = data[[*front, "confidence", "confidence_sd", "undefined"]].reset_index(drop=True)

    def draw(figure: FigureBase) -> None:
        _draw(figure, shown, bold)

    return Plate(ordered, told, draw, table_size(shown), shown)


def _confidence(survey: Surveyed) -> pd.DataFrame:
    if "confidence" not in survey.tables:
        raise InputError(
            f"bert-spaces/table1: no word was displayed in {survey.folder or survey.model}; "
            "`theodolite probe ... --show WORD` displays one."
        )
    return survey.tables["confidence"]


def _printed(keys: pd.DataFrame, wide: pd.DataFrame) -> tuple[pd.DataFrame, list[int | None]]:
    """Return the table as people read it, and which class of each row is the likeliest, None where none is."""
    values = wide.to_numpy(dtype=float)
    known = ~np.isnan(values).all(axis=1)
    bold = [int(np.nanargmax(row)) if some else None for row, some in zip(values, known, strict=True)]
    shown = keys.astype(str).reset_index(drop=True)
    shown["likeliest"] = ["–" if at is None else str(wide.columns[at]) for at in bold]
    shown.columns = pd.Index(HEADS)
    for number, label in enumerate(wide.columns):
        shown[str(label)] = ["–" if np.isnan(value) else f"{value:.2f}" for value in values[:, number]]
    return shown, bold


def _draw(figure: FigureBase, shown: pd.DataFrame, bold: Sequence[int | None]) -> None:
    """Draw the table and embolden: texts stand column by column, a head and the rows below it."""
    ax = figure.subplots()
    ax.set_axis_off()
    fill_table(ax, shown)
    for row, at in enumerate(bold):
        if at is not None:
            ax.texts[(len(HEADS) + at) * (len(shown) + 1) + row + 1].set_fontweight("bold")


def _scores(survey: Surveyed, name: str) -> str:
    """Say how well each probe does on held-out words, on shuffled labels, and by guessing."""
    (probes,) = tables_of(survey, ["probes"])
    counts = survey.facts["counts"]
    lost = ", ".join(f"{count} {reason}" for reason, count in counts["left_out"].items())
    told = [
        f"{rows['layer_name'].iloc[0]}: "
        + "; ".join(
            f"{row['probe']} {row['accuracy']:.2f} [{row['accuracy_low']:.2f}, {row['accuracy_high']:.2f}], "
            f"control {row['control']:.2f}"
            for row in rows.to_dict("records")
        )
        for _, rows in probes.groupby("layer_name", sort=False)
    ]
    return (
        f"Held-out accuracy and that on shuffled labels, {plain(name)}, {counts['words_a_class']} words in each "
        f"of {counts['classes']} classes of {plain(survey.facts['settings']['words']['name'])}"
        f"{f' (left out: {lost})' if lost else ''}, guessing {probes['baseline'].iloc[0]:.2f}: {'. '.join(told)}."
    )


def _undefined(data: pd.DataFrame) -> str:
    why = data[data["undefined"] != ""].groupby("word", sort=False)["undefined"].first()
    return f"–: {'; '.join(f'{plain(word)} ({reason})' for word, reason in why.items())}." if len(why) else ""
