"""Several surveys on one set of axes: any numbers of the table of layers, a panel each. No paper's, anyone's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.errors import InputError, nearest
from theodolite.exhibits.depth_lines import draw_line, finish, has_errors, has_final_norm, has_stacks
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.layer_lines import draw_legend, legend_inches
from theodolite.exhibits.needs import SURVEY
from theodolite.exhibits.norm_variance.captions import caption, corpora, massive, population
from theodolite.exhibits.norm_variance.panels import panels, panels_size
from theodolite.exhibits.saving import TABLES, save
from theodolite.exhibits.style import look
from theodolite.exhibits.text import number, plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.anisotropy.by_layer import HEAD, MEAN_NORM, by_layer, numbers
from theodolite.studies.choice import Choice, check_population
from theodolite.studies.surveyed import Surveyed, labels

DEFAULTS = ("mean_cosine", MEAN_NORM, "anisotropy_svd", "effective_rank", "iso_score", "twonn")
LABELS = {MEAN_NORM: "|mean| = sqrt(m)"}
IN_FOLDER = ("png", "svg", "csv")
WIDE_RANGE = 100.0
"""Positive numbers whose largest is so many times their smallest stand on a logarithmic axis."""


def compare(surveys: Sequence[Surveyed], measures: Sequence[str] = (), choice: Choice | None = None) -> Plate:
    """Return small multiples, a panel a measure, a line a survey.

    A measure is any numeric column of layers.parquet, or `mean_norm`, the norm of the mean; without any, those of
    DEFAULTS that some survey knows.
    """
    chosen = choice or Choice(depth="normalised")
    if not surveys:
        raise InputError("compare needs at least one survey's folder.")
    for survey in surveys:
        if not SURVEY.met(survey):
            raise InputError(f"compare puts surveys side by side: {SURVEY.lack(survey)}.")
        check_population(survey, chosen.population)
    columns = _checked(surveys, measures) if measures else _present(surveys)
    names = _names(surveys)
    tables = [by_layer(s, chosen.population, columns, name) for s, name in zip(surveys, names, strict=True)]
    x = "layer" if chosen.depth == "layer" else "joined_depth"

    def draw(figure: FigureBase) -> None:
        for ax, column in zip(panels(figure, len(columns)), columns, strict=True):
            _draw_panel(ax, tables, column, x)
        draw_legend(figure, names, width=size[0])

    width, height = panels_size(len(columns), height=2.0)
    size = (max(width, 4.6), height + legend_inches(names, max(width, 4.6)))
    data = pd.concat(tables, ignore_index=True)
    return Plate(data, _caption(surveys, chosen, tables, columns), draw, size, _shown(data, columns))


def save_comparison(plate: Plate, out: Path) -> list[Path]:
    """Write a comparison in the format of the file's ending; into a folder, two pictures and the numbers."""
    made = Exhibit("compare", "Surveys compared", "table", lambda surveys, choice: plate)
    ending = out.suffix.lower().removeprefix(".")
    if ending and not out.is_dir() and ending not in TABLES:
        raise InputError(f"--out {out}: the ending is one of {', '.join(TABLES)}; a name without one is a folder.")
    if out.is_file() and not ending:
        raise InputError(f"--out {out} is a file without an ending; give a folder, or a name such as {out}.png.")
    files = [out] if ending and not out.is_dir() else [out / f"compare.{one}" for one in IN_FOLDER]
    for file in files:
        save(made, plate, file)
    return files


def measures_of(surveys: Sequence[Surveyed]) -> list[str]:
    """Return every measure that one of the surveys could show: numeric columns, and `mean_norm`."""
    known: dict[str, None] = {}
    for survey in surveys:
        numeric = survey.layers.select_dtypes(["number", "bool"]).columns
        known |= dict.fromkeys(str(name) for name in numeric if name != "layer")
    return [*known, *([MEAN_NORM] if "m" in known else [])]


def _checked(surveys: Sequence[Surveyed], measures: Sequence[str]) -> list[str]:
    known = measures_of(surveys)
    for name in measures:
        if name in known:
            continue
        if any(name in survey.layers for survey in surveys):
            raise InputError(f"--measure {name!r} is not a number in the table of layers.")
        hint = nearest(name.lower(), known) or f" There are {', '.join(known)}."
        raise InputError(f"--measure: there is no column {name!r} in the table of layers.{hint}")
    return list(dict.fromkeys(measures))


def _present(surveys: Sequence[Surveyed]) -> list[str]:
    """Return the default measures that some survey knows."""
    known = [
        name for name in DEFAULTS if any(np.isfinite(numbers(survey.layers, name)).any() for survey in surveys)
    ]
    return known or ["mean_cosine"]


def _names(surveys: Sequence[Surveyed]) -> list[str]:
    """Return a name for each survey; two of one model are told apart by their folders."""
    models = [survey.model for survey in surveys]
    folders = [survey.folder.name if survey.folder is not None else "" for survey in surveys]
    if len(set(models)) < len(models) and len(set(folders)) == len(folders):
        return [f"{model} ({folder})" for model, folder in zip(models, folders, strict=True)]
    return labels(surveys)


def _draw_panel(ax: Axes, tables: Sequence[pd.DataFrame], column: str, x: str) -> None:
    for place, table in enumerate(tables):
        draw_line(ax, table, column, look(place), x=x)
    finish(ax, tables, column, x)
    ax.set_xlabel("layer" if x == "layer" else "depth")
    values = np.concatenate([table[column].to_numpy(np.float64) for table in tables])
    known = values[np.isfinite(values)]
    if len(known) and known.min() > 0 and known.max() > WIDE_RANGE * known.min():
        ax.set_yscale("log")
    else:
        short_ticks(ax)
    ax.set_title(plain(LABELS.get(column, column)))


def _caption(
    surveys: Sequence[Surveyed], choice: Choice, tables: Sequence[pd.DataFrame], columns: Sequence[str]
) -> str:
    lacking = {
        column: [survey.model for survey in surveys if column not in measures_of([survey])] for column in columns
    }
    depth = "Depth is 0 at the embeddings and 1 at the last block." if choice.depth != "layer" else ""
    return caption(
        "Surveys compared by layer.",
        corpora(surveys),
        population(choice),
        massive(surveys, choice),
        depth,
        " ".join(f"{column} is not in the survey of {', '.join(who)}." for column, who in lacking.items() if who),
        "Strip: ±1.96 standard errors." if any(has_errors(tables, column) for column in columns) else "",
        "Thin line: from a model's encoder to its decoder." if has_stacks(tables) else "",
        "Open marker: the state after the final norm." if has_final_norm(tables) else "",
    )


def _shown(data: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the table for people: the layers and the measures, a few digits each."""
    short = partial(number, digits=4)
    told = {column: [short(float(value)) for value in data[column]] for column in columns}
    return data[[name for name in HEAD if name in ("survey", "layer", "layer_name", "population")]].assign(**told)
