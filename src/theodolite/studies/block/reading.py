"""What `theodolite block` found, made ready to draw: the first run, and how far runs and heads lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from theodolite.errors import DamagedError
from theodolite.studies.surveyed import Surveyed

SHOWN_NORMS = 5
SHOWN_LENGTHS = 3


def block_labels(surveys: Sequence[Surveyed]) -> list[str]:
    """Return a name for each folder, all different: the model and the block, numbered where that is not enough."""
    names = [f"{survey.model}, block {survey.facts['settings']['layer']}" for survey in surveys]
    own = [name + (" on its own states" if s.facts["settings"]["inputs"] == "states" else "")
           for name, s in zip(names, surveys, strict=True)]  # fmt: skip
    twice = {name for name in own if own.count(name) > 1}
    return [f"{name} ({number})" if name in twice else name for number, name in enumerate(own, 1)]


def over_runs(
    survey: Surveyed, table: str, columns: Sequence[str], by: Sequence[str] = (), label: str = ""
) -> pd.DataFrame:
    """Return each norm's numbers in the first run, with the lowest and highest over all runs."""
    rows = _table(survey, table)
    keys = ["norm", *by]
    groups = rows.groupby(keys, dropna=False)[list(columns)]
    ends = groups.min().add_suffix("_low").join(groups.max().add_suffix("_high"))
    first = rows[rows["run"] == 0].set_index(keys)[list(columns)]
    return first.join(ends).reset_index().assign(survey=label)


def over_heads(survey: Surveyed, columns: Sequence[str], label: str = "") -> pd.DataFrame:
    """Return the mean over heads of the first run's queries and keys, with the lowest and highest head."""
    rows = _table(survey, "heads")
    groups = rows[rows["run"] == 0].groupby(["norm", "of", "rotated"])[list(columns)]
    ends = groups.min().add_suffix("_low").join(groups.max().add_suffix("_high"))
    return groups.mean().join(ends).reset_index().assign(survey=label)


def histograms(survey: Surveyed, label: str = "") -> pd.DataFrame:
    """Return the first run's histograms of scores for the smallest norm and the largest four; peaks are 1."""
    rows = _table(survey, "histogram")
    first = rows[rows["run"] == 0]
    norms = sorted(first["norm"].unique())
    shown = first[first["norm"].isin([norms[0], *norms[1 - SHOWN_NORMS :]])]
    peak = shown.groupby("norm")["count"].transform("max")
    return shown.assign(height=shown["count"] / peak, survey=label).drop(columns="run")


def shown_lengths(survey: Surveyed) -> list[int]:
    """Return the lengths of rows that are drawn: the greatest, and a quarter and a sixteenth of it where known."""
    rows = _table(survey, "softmax")
    known = sorted(rows["length"].unique())
    wanted = [known[-1] // 4**power for power in range(SHOWN_LENGTHS)]
    return list(dict.fromkeys(int(each) for each in wanted if each in known and each > 1))


def fixed_points(survey: Surveyed) -> dict[str, dict[str, Any]]:
    """Return the summary of fixed points by quantity."""
    rows = _table(survey, "summary")
    return {str(row["quantity"]): {str(k): v for k, v in row.items()} for row in rows.to_dict("records")}


def _table(survey: Surveyed, name: str) -> pd.DataFrame:
    if name not in survey.tables:
        raise DamagedError(f"{survey.folder}: there is no {name}.parquet in it.")
    return survey.tables[name]
