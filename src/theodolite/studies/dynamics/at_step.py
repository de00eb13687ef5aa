"""One step of a series, as a survey of that checkpoint would tell it."""

from __future__ import annotations

from theodolite.studies.dynamics.names import SERIES
from theodolite.studies.surveyed import Surveyed


def steps_of(survey: Surveyed) -> list[int]:
    """Return the steps of a series, first to last."""
    return [int(each["step"]) for each in survey.facts["steps"]]


def at_step(survey: Surveyed, step: int) -> Surveyed:
    """Return the layers of one step under the facts of the series."""
    table = survey.tables[SERIES]
    return Surveyed(survey.facts, {"layers": table[table["step"] == step]}, survey.folder)
