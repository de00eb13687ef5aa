"""theodolite.exhibit and theodolite.compare: matplotlib figures from surveys in memory or in folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from theodolite.errors import InputError
from theodolite.exhibits import compare as comparisons
from theodolite.exhibits.compare_series import compare_series
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import all_exhibits, find, make
from theodolite.exhibits.saving import compose, save
from theodolite.report.findings.comparison import comparison_cautions
from theodolite.report.tables import Tables
from theodolite.studies.choice import AUTO, Choice
from theodolite.studies.laboratory import Findings
from theodolite.studies.reading import DEFAULT_TABLES, read_survey_data, select_tables
from theodolite.studies.series.series import Series
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.survey import Survey

Source = Survey | Findings | Series | SurveyData | str | Path
"""A survey, laboratory or series in memory, or its folder."""


class ExhibitFigure(Figure):
    """A matplotlib figure with the numbers it shows and its caption. Notebooks display it without pyplot."""

    data: pd.DataFrame
    caption: str

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()


def exhibit(
    name: str,
    surveys: Source | Sequence[Source],
    *,
    out: str | Path | None = None,
    layers: Sequence[int] = (),
    population: str = AUTO,
    variant: str = "biased",
    filter: str | None = None,  # noqa: A002
    specials: str = "auto",
    depth: str | None = None,
    steps: str | None = None,
    caption: bool = True,
) -> ExhibitFigure:
    """Draw a figure or table of a paper, such as "norm-variance/fig4", from one survey or several.

    `surveys` are surveys, laboratories or series, in memory or as folders. The figure has the numbers as `.data`
    and its caption as `.caption`. `out` also writes it: .png, .svg or .pdf, for a table also .csv, .md, .tex or
    .json. The other options are those of `theodolite exhibit`.
    """
    found = find(name)
    choice = Choice(population, variant, filter, specials, tuple(layers), depth, steps)
    plate = make(found, [as_survey_data(one, found.reads) for one in as_list(surveys)], choice)
    if out is not None:
        save(found, plate if caption else replace(plate, caption=""), Path(out))
    return _draw(plate, caption)


def compare(
    surveys: Source | Sequence[Source],
    measures: str | Sequence[str] = (),
    *,
    out: str | Path | None = None,
    population: str = AUTO,
    depth: str = "normalised",
    caption: bool = True,
) -> ExhibitFigure:
    """Plot measures of several surveys by layer, or of several series by step, one panel per measure.

    A measure is a column of layers.parquet, such as "mean_cosine". The figure has the numbers as `.data`. `out`
    also writes it: .png, .svg, .pdf, .csv, .md, .tex or .json, or a folder for a picture and the numbers.
    """
    chosen = [measures] if isinstance(measures, str) else measures
    read = [as_survey_data(one, ("layers", "jackknife")) for one in as_list(surveys)]
    plate, _ = compare_with_cautions(read, chosen, Choice(population, depth=depth))
    if out is not None:
        comparisons.save_comparison(plate, Path(out))
    return _draw(plate, caption)


def compare_with_cautions(
    surveys: Sequence[SurveyData], measures: Sequence[str], choice: Choice
) -> tuple[Plate, list[str]]:
    """Return the comparison, and what else than the models may cause differences; its caption states it too."""
    if any(one.facts.get("series") for one in surveys):
        return compare_series(surveys, measures, choice), []
    plate = comparisons.compare(surveys, measures, choice)
    cautions = comparison_cautions(
        [Tables(one.model, one.facts, one.layers, pd.DataFrame(), pd.DataFrame()) for one in surveys]
    )
    return replace(plate, caption=" ".join([plate.caption, *cautions])), cautions


def plot_laboratory(found: Findings, name: str | None = None, **options: Any) -> ExhibitFigure:
    """Draw an exhibit of a laboratory, by default the first of those that it has the tables for."""
    if name is None:
        known = list_laboratory_exhibits(as_survey_data(found))
        if not known:
            raise InputError(f"There is no exhibit of {found.name}; its numbers are in tables.")
        name = known[0]
    return exhibit(name, found, **options)


def list_laboratory_exhibits(found: SurveyData) -> list[str]:
    """Return the names of the exhibits that can be drawn from a laboratory, figures first."""
    verb = found.facts["laboratory"]
    usable = [
        each
        for each in all_exhibits().values()
        if any(need.laboratory == verb for need in each.needs) and all(need.is_met(found) for need in each.needs)
    ]
    return [each.name for each in sorted(usable, key=lambda each: each.kind != "figure")]


def tabulate_series(series: Series, population: str = AUTO) -> pd.DataFrame:
    """Return means over blocks of the default measures, one row per step with the name of its checkpoint."""
    names = pd.DataFrame([(each.step, each.name) for each in series.steps], columns=["step", "checkpoint"])
    if not series.steps:
        return names
    plate = compare_series([series.as_survey_data()], (), Choice(population))
    shown = plate.data.drop(columns="survey")
    return names.merge(shown[[name for name in shown if not str(name).endswith("_se")]], on="step")


def as_list(given: Source | Sequence[Source]) -> list[Source]:
    """Return one source or several as a list."""
    single = isinstance(given, Survey | Findings | Series | SurveyData | str | Path)
    return [given] if single else list(given)  # type: ignore[list-item, arg-type]


def as_survey_data(given: Source, tables: Sequence[str] = DEFAULT_TABLES) -> SurveyData:
    """Return the facts and tables of a survey, laboratory or series, in memory or in a folder."""
    if isinstance(given, SurveyData):
        return given
    if isinstance(given, Findings):
        return SurveyData(given.facts, given.tables)
    if isinstance(given, Series):
        return given.as_survey_data()
    if isinstance(given, Survey):
        found = select_tables(given, tables, _local(given))
        if found is not None:
            return found
        given = str(given.folder)  # what a second pass has written beside it
    return read_survey_data(given, tables)


def _local(survey: Survey) -> Path | None:
    return survey.folder if isinstance(survey.folder, Path) else None


def _draw(plate: Plate, caption: bool) -> ExhibitFigure:
    figure = compose(plate if caption else replace(plate, caption=""), ExhibitFigure)
    figure.data, figure.caption = plate.data, plate.caption
    return figure
