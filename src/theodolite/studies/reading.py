"""Reading surveys for a study: only the tables it needs, never the state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.folder import open_tables

TABLES = ("layers", "tokens", "units")


def read(folder: str | Path, tables: Sequence[str] = TABLES) -> Surveyed:
    """Open a finished survey's folder as a study sees it."""
    facts, found = open_tables(folder, tables)
    return Surveyed(facts, found, Path(folder))
