"""Several surveys on the same axes: any columns of the table of layers, one panel per column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.errors import InputError, nearest
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import (
    describe_corpora,
    describe_massive,
    describe_population,
    join_sentences,
)
from theodolite.exhibits.drawing.layer_lines import (
    draw_line,
    format_layer_axis,
    has_errors,
    has_final_norm,
    has_stacks,
)
from theodolite.exhibits.drawing.panels import draw_legend, legend_inches, make_panels, panels_size
from theodolite.exhibits.drawing.style import get_line_style
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.needs import SURVEY
from theodolite.exhibits.saving import TABLES, save
from theodolite.measures.columns import find_column
from theodolite.studies.anisotropy.layers import HEAD, MEAN_NORM, NORM_OF_MEAN, column_values, tabulate_layers
from theodolite.studies.choice import AUTO, Choice, check_population
from theodolite.studies.differences import APART, add_differences
from theodolite.studies.survey_data import SurveyData, make_labels
from theodolite.text import format_scientific

DEFAULTS = ("mean_cosine", NORM_OF_MEAN, "anisotropy_svd", "effective_rank", "iso_score", "twonn")
TITLE_WIDTH = 30
"""Characters in a line of a panel's title."""
IN_FOLDER = ("png", "svg", "csv")
WIDE_RANGE = 100.0
"""Positive numbers use a logarithmic axis if the largest exceeds the smallest by more than this factor."""


def compare(surveys: Sequence[SurveyData], measures: Sequence[str] = (), choice: Choice | None = None) -> Plate:
    """Return a figure with one panel per measure and one line per survey.

    A measure is any numeric column of layers.parquet, or `norm_of_mean` (also called `mean_norm`). The default is
    those of DEFAULTS that some survey has.
    """
    chosen = (choice or Choice(AUTO, depth="normalised")).for_surveys(surveys)
    if not surveys:
        raise InputError("compare needs the folder of at least one survey.")
    for survey in surveys:
        if not SURVEY.is_met(survey):
            raise InputError(f"compare needs surveys: {SURVEY.explain(survey)}.")
        check_population(survey, chosen.population)
    columns = _check_measures(surveys, measures) if measures else _default_measures(surveys)
    names = _name_surveys(surveys)
    tables = [tabulate_layers(s, chosen.population, columns, name) for s, name in zip(surveys, names, strict=True)]
    x = "layer" if chosen.depth == "layer" else "joined_depth"
    tables = add_differences(tables, surveys, chosen.population, columns, x)

    def draw(figure: FigureBase) -> None:
        for ax, column in zip(make_panels(figure, len(columns)), columns, strict=True):
            _draw_panel(ax, tables, column, x)
        draw_legend(figure, names, width=size[0])

    width, height = panels_size(len(columns), height=2.0)
    size = (max(width, 4.6), height + legend_inches(names, max(width, 4.6)))
    data = pd.concat(tables, ignore_index=True)
    return Plate(data, _caption(surveys, chosen, tables, columns), draw, size, _format_table(data, columns))


def save_comparison(plate: Plate, out: Path) -> list[Path]:
    """Write a comparison in the format of the suffix of `out`; into a folder, two pictures and the numbers."""
    exhibit = Exhibit("compare", "Surveys compared", "table", lambda surveys, choice: plate)
    suffix = out.suffix.lower().removeprefix(".")
    if suffix and not out.is_dir() and suffix not in TABLES:
        raise InputError(
            f"--out {out}: a file must end in one of {', '.join(TABLES)}; a name without a suffix is a folder."
        )
    if out.is_file() and not suffix:
        raise InputError(f"--out {out} is a file without a suffix; give a folder, or a name such as {out}.png.")
    files = [out] if suffix and not out.is_dir() else [out / f"compare.{one}" for one in IN_FOLDER]
    for file in files:
        save(exhibit, plate, file)
    return files


def measures_of(surveys: Sequence[SurveyData]) -> list[str]:
    """Return every measure that one of the surveys has: numeric columns, and `norm_of_mean`."""
    known: dict[str, None] = {}
    for survey in surveys:
        numeric = survey.layers.select_dtypes(["number", "bool"]).columns
        known |= dict.fromkeys(str(name) for name in numeric if name != "layer")
    return [*known, *([NORM_OF_MEAN, MEAN_NORM] if "m" in known else [])]


def _check_measures(surveys: Sequence[SurveyData], measures: Sequence[str]) -> list[str]:
    known = measures_of(surveys)
    for name in measures:
        if name in known:
            continue
        if any(name in survey.layers for survey in surveys):
            raise InputError(f"--measure {name!r} is not a number in the table of layers.")
        hint = nearest(name.lower(), known) or f" There are {', '.join(known)}."
        raise InputError(f"--measure: there is no column {name!r} in the table of layers.{hint}")
    return list(dict.fromkeys(measures))


def _default_measures(surveys: Sequence[SurveyData]) -> list[str]:
    """Return the default measures that some survey has."""
    known = [
        name
        for name in DEFAULTS
        if any(np.isfinite(column_values(survey.layers, name)).any() for survey in surveys)
    ]
    return known or ["mean_cosine"]


def _name_surveys(surveys: Sequence[SurveyData]) -> list[str]:
    """Return a name for each survey. Surveys of the same model are distinguished by their folders."""
    labels = [survey.facts.get("label") for survey in surveys]
    models = [survey.model for survey, label in zip(surveys, labels, strict=True) if not label]
    folders = [survey.folder.name if survey.folder is not None else "" for survey in surveys]
    names = make_labels(surveys)
    if len(set(models)) < len(models) and len(set(folders)) == len(folders):
        found = zip(names, labels, surveys, folders, strict=True)
        return [name if label else f"{survey.model} ({folder})" for name, label, survey, folder in found]
    return names


def _draw_panel(ax: Axes, tables: Sequence[pd.DataFrame], column: str, x: str) -> None:
    for place, table in enumerate(tables):
        draw_line(ax, table, column, get_line_style(place), x=x)
    format_layer_axis(ax, tables, column, x)
    ax.set_xlabel("layer" if x == "layer" else "depth")
    values = np.concatenate([table[column].to_numpy(np.float64) for table in tables])
    known = values[np.isfinite(values)]
    if len(known) and known.min() > 0 and known.max() > WIDE_RANGE * known.min():
        ax.set_yscale("log")
    else:
        shorten_ticks(ax)
    ax.set_title(fill(clean_label(find_column(column).title), TITLE_WIDTH))


def _caption(
    surveys: Sequence[SurveyData], choice: Choice, tables: Sequence[pd.DataFrame], columns: Sequence[str]
) -> str:
    missing = {
        column: [survey.model for survey in surveys if column not in measures_of([survey])] for column in columns
    }
    depth = "Depth is 0 at the embeddings and 1 at the last block." if choice.depth != "layer" else ""
    return join_sentences(
        "Comparison of surveys by layer.",
        describe_corpora(surveys),
        describe_population(choice, surveys),
        describe_massive(surveys, choice),
        depth,
        " ".join(f"{column} is not in the survey of {', '.join(who)}." for column, who in missing.items() if who),
        "Strip: ±1.96 standard errors." if any(has_errors(tables, column) for column in columns) else "",
        _describe_differences(surveys, tables, columns),
        "Thin line: from the encoder of a model to its decoder." if has_stacks(tables) else "",
        "Open marker: the state after the final norm." if has_final_norm(tables) else "",
    )


def _describe_differences(
    surveys: Sequence[SurveyData], tables: Sequence[pd.DataFrame], columns: Sequence[str]
) -> str:
    """State what the differences in the table are, if it has any."""
    if not any(table[f"{column}_{APART}"].notna().any() for table in tables for column in columns):
        return ""
    return (
        f"Differences in the table: from {clean_label(surveys[0].model)} on the same documents, with 95% "
        "intervals over the same groups of documents."
    )


def _format_table(data: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the formatted table: layers, measures with four digits, and differences if there are any."""
    short = partial(format_scientific, digits=4)
    numbers = {column: [short(float(value)) for value in data[column]] for column in columns}
    for column in columns:
        if data[f"{column}_{APART}"].notna().any():
            three = (data[f"{column}_{APART}{end}"] for end in ("", "_low", "_high"))
            numbers[f"{column} {APART}"] = [_format_interval(*each) for each in zip(*three, strict=True)]
    return data[[name for name in HEAD if name in ("survey", "layer", "layer_name", "population")]].assign(
        **numbers
    )


def _format_interval(value: float, low: float, high: float) -> str:
    """Return a number and its interval.

    >>> _format_interval(0.1234, 0.1, 0.15), _format_interval(float("nan"), float("nan"), float("nan"))
    ('0.123 [0.1, 0.15]', '')
    """
    if pd.isna(value):
        return ""
    return f"{format_scientific(value)} [{format_scientific(low)}, {format_scientific(high)}]"
