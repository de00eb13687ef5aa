"""Reading surveys for a study: only the tables it needs, never the state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.studies.anisotropy.batch_files import with_batches
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.laboratory import as_surveyed, is_laboratory
from theodolite.studies.norm_variance.chosen_sets import SETS
from theodolite.studies.norm_variance.set_files import lie_in, read_sets
from theodolite.studies.series import Series, is_series
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.fetching import fetched
from theodolite.surveys.folder import open_tables

TABLES = ("layers", "tokens", "units")


def read(folder: str | Path, tables: Sequence[str] = TABLES) -> Surveyed:
    """Open a finished survey's folder as a study sees it; "token_sets" and "batches" where it has them.

    A folder that a laboratory left is read whole: its tables are few. So is a series.
    """
    folder = fetched(folder)
    if is_series(folder):
        return Series.read(folder).as_surveyed(folder)
    if is_laboratory(folder):
        return as_surveyed(folder)
    facts, found = open_tables(folder, [name for name in tables if name not in (SETS, BATCHES)])
    survey = Surveyed(facts, found, folder)
    if BATCHES in tables:
        survey = with_batches(survey)
    if SETS in tables and lie_in(folder):
        return read_sets(folder, facts).beside(survey)
    return survey
