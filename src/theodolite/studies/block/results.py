"""Results of the block laboratory, arranged for figures: the first run and the range over runs and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from theodolite.errors import DamagedError
from theodolite.studies.survey_data import SurveyData

SHOWN_NORMS = 5
SHOWN_LENGTHS = 3


def block_labels(surveys: Sequence[SurveyData]) -> list[str]:
    """Return a different name for each folder: the model and the block, numbered if those are equal."""
    names = [f"{survey.model}, block {survey.facts['settings']['layer']}" for survey in surveys]
    own = [name + (" on its own states" if s.facts["settings"]["inputs"] == "states" else "")
           for name, s in zip(names, surveys, strict=True)]  # fmt: skip
    twice = {name for name in own if own.count(name) > 1}
    return [f"{name} ({number})" if name in twice else name for number, name in enumerate(own, 1)]


def over_runs(
    survey: SurveyData, table: str, columns: Sequence[str], by: Sequence[str] = (), label: str = ""
) -> pd.DataFrame:
    """Return the numbers of the first run by norm, with the lowest and highest over all runs."""
    rows = _table(survey, table)
    keys = ["norm", *by]
    groups = rows.groupby(keys, dropna=False)[list(columns)]
    ends = groups.min().add_suffix("_low").join(groups.max().add_suffix("_high"))
    first = rows[rows["run"] == 0].set_index(keys)[list(columns)]
    return first.join(ends).reset_index().assign(survey=label)


def over_heads(survey: SurveyData, columns: Sequence[str], label: str = "") -> pd.DataFrame:
    """Return the mean over heads of the first run's queries and keys, with the lowest and highest head."""
    rows = _table(survey, "heads")
    groups = rows[rows["run"] == 0].groupby(["norm", "of", "rotated"])[list(columns)]
    ends = groups.min().add_suffix("_low").join(groups.max().add_suffix("_high"))
    return groups.mean().join(ends).reset_index().assign(survey=label)


def histograms(survey: SurveyData, label: str = "") -> pd.DataFrame:
    """Return histograms of scores of the first run for the smallest norm and the largest four, with peak 1."""
    rows = _table(survey, "histogram")
    first = rows[rows["run"] == 0]
    norms = sorted(first["norm"].unique())
    shown = first[first["norm"].isin([norms[0], *norms[1 - SHOWN_NORMS :]])]
    peak = shown.groupby("norm")["count"].transform("max")
    return shown.assign(height=shown["count"] / peak, survey=label).drop(columns="run")


def shown_lengths(survey: SurveyData) -> list[int]:
    """Return the lengths of rows to plot: the largest, and a quarter and a sixteenth of it if available."""
    rows = _table(survey, "softmax")
    known = sorted(rows["length"].unique())
    lengths = [known[-1] // 4**power for power in range(SHOWN_LENGTHS)]
    return list(dict.fromkeys(int(length) for length in lengths if length in known and length > 1))


def fixed_points(survey: SurveyData) -> dict[str, dict[str, Any]]:
    """Return the summary of fixed points by quantity."""
    rows = _table(survey, "summary")
    return {str(row["quantity"]): {str(k): v for k, v in row.items()} for row in rows.to_dict("records")}


def _table(survey: SurveyData, name: str) -> pd.DataFrame:
    if name not in survey.tables:
        raise DamagedError(f"{survey.folder} contains no {name}.parquet.")
    return survey.tables[name]
