"""Reading surveys for a study: only the tables it needs, never the state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.studies.norm_variance.chosen_sets import SETS
from theodolite.studies.norm_variance.set_files import lie_in, read_sets
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.folder import open_tables

TABLES = ("layers", "tokens", "units")


def read(folder: str | Path, tables: Sequence[str] = TABLES) -> Surveyed:
    """Open a finished survey's folder as a study sees it; "token_sets" among the tables where it has them."""
    facts, found = open_tables(folder, [name for name in tables if name != SETS])
    survey = Surveyed(facts, found, Path(folder))
    if SETS in tables and lie_in(Path(folder)):
        return read_sets(Path(folder), facts).beside(survey)
    return survey
