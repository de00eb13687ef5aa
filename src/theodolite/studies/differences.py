"""Differences between layers and between surveys of the same documents, with intervals over groups of documents.

Numbers of the same documents vary together, so their difference is known better than their own intervals suggest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.resampling import group_error
from theodolite.studies.anisotropy.layers import MEAN_NORM, NORM_OF_MEAN, Z
from theodolite.studies.survey_data import SurveyData

Array = NDArray[np.float64]
STEP, APART = "step", "difference"
"""Endings of columns: the change since the layer before, and the difference from the first survey."""


def share_documents(first: SurveyData, other: SurveyData) -> bool:
    """Return whether two surveys read the same documents, which are then in the same groups."""
    known = [(survey.facts.get("identity") or {}).get("corpus") for survey in (first, other)]
    return known[0] is not None and known[0] == known[1]


def estimates_by_group(survey: SurveyData, population: str, column: str) -> dict[int, pd.Series]:
    """Return a column of each layer without each group of documents, by layer; empty if the survey has none."""
    table = survey.tables.get("jackknife")
    if table is None or table.empty:
        return {}
    root = column in (MEAN_NORM, NORM_OF_MEAN)
    rows = table[(table["population"] == population) & (table["column"] == ("m" if root else column))]
    return {
        layer: np.sqrt(part) if root else part
        for layer in sorted(set(rows["layer"].tolist()))
        for part in [rows[rows["layer"] == layer].set_index("group")["value"]]
    }


def difference_error(first: pd.Series | None, other: pd.Series | None) -> float:
    """Return the standard error of other - first from their estimates by group; NaN if the groups differ."""
    if first is None or other is None or not first.index.equals(other.index):
        return float("nan")
    return float(group_error((other - first).to_numpy(np.float64)))


def add_differences(
    tables: Sequence[pd.DataFrame],
    surveys: Sequence[SurveyData],
    population: str,
    columns: Sequence[str],
    x: str,
) -> list[pd.DataFrame]:
    """Add to tables by layer the changes since the layer before, and the differences from the first survey.

    A difference from the first survey is that at the same `x`, if both surveys read the same documents. Of each
    there is the number, and the ends of its 95% interval (`COLUMN_step_low`, ...); NaN if it has no interval.
    """
    found = []
    for table, survey in zip(tables, surveys, strict=True):
        alike = survey is not surveys[0] and share_documents(surveys[0], survey)
        added: dict[str, Array] = {}
        for column in columns:
            own = estimates_by_group(survey, population, column)
            added |= _pair(table, table, own, own, column, STEP, _rows_before(table))
            theirs = estimates_by_group(surveys[0], population, column) if alike else {}
            added |= _pair(tables[0], table, theirs, own, column, APART, _rows_at(tables[0], table, x))
        found.append(table.assign(**added))
    return found


def _pair(
    first: pd.DataFrame,
    other: pd.DataFrame,
    first_estimates: dict[int, pd.Series],
    estimates: dict[int, pd.Series],
    column: str,
    ending: str,
    rows: Sequence[int | None],
) -> dict[str, Array]:
    """Return the difference of each row of `other` from a row of `first`, with its interval."""
    names, values = (table["layer"].tolist() for table in (first, other)), other[column].to_numpy(np.float64)
    first_layers, layers = names
    apart, error = np.full((2, len(other)), np.nan)
    for row, of in enumerate(rows):
        if of is not None:
            error[row] = difference_error(first_estimates.get(first_layers[of]), estimates.get(layers[row]))
            apart[row] = values[row] - float(first[column].iloc[of])
    apart = np.where(np.isfinite(error), apart, np.nan)
    name = f"{column}_{ending}"
    return {name: apart, f"{name}_low": apart - Z * error, f"{name}_high": apart + Z * error}


def _rows_before(table: pd.DataFrame) -> list[int | None]:
    """Return the row of the layer before each layer, None for the first of a stack."""
    stacks = table["stack"].tolist()
    return [None, *(row if one == other else None for row, (one, other) in enumerate(pairwise(stacks)))][
        : len(table)
    ]


def _rows_at(first: pd.DataFrame, other: pd.DataFrame, x: str) -> list[int | None]:
    """Return the row of `first` at the same place as each row of `other`, None if there is none."""
    places = [(stack, round(float(at), 6)) for stack, at in zip(first["stack"], first[x], strict=True)]
    wanted = [(stack, round(float(at), 6)) for stack, at in zip(other["stack"], other[x], strict=True)]
    return [places.index(place) if place in places else None for place in wanted]
