"""Batches on disk: one table beside a survey's own, which belongs to it and to no other."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import DamagedError, InputError
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.folder import write_table
from theodolite.surveys.identity import owner

TABLE = "batches.parquet"
FACTS = "theodolite"  # the entry of the file's metadata that holds them


def write_batches(folder: Path, survey_facts: dict[str, Any], table: pd.DataFrame, how: dict[str, Any]) -> None:
    """Write the table, whole or not at all; how it was made and of which survey goes into its metadata."""
    facts = how | {"survey": owner(survey_facts)}
    write_table(folder / TABLE, table, {FACTS: json.dumps(facts)})


def batches_lie_in(folder: Path) -> bool:
    """Say whether batches lie in a folder."""
    return (folder / TABLE).is_file()


def read_batches(folder: Path, survey_facts: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table and how it was made; refuse that of a survey that has been replaced since."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    again = f"`theodolite batches {shlex.quote(str(folder))}` makes them again"
    if not batches_lie_in(folder):
        raise InputError(f"There are no batches in {folder}; {again.removesuffix(' again')}.")
    try:
        arrow = pq.read_table(folder / TABLE, page_checksum_verification=True)
        facts = json.loads((arrow.schema.metadata or {})[FACTS.encode()])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise DamagedError(f"{folder / TABLE} cannot be read: {error}; {again}.") from error
    if facts["survey"] != owner(survey_facts):
        raise InputError(f"The batches in {folder} are of the survey that was there before; {again}.")
    return arrow.to_pandas(), facts


def with_batches(survey: Surveyed) -> Surveyed:
    """Return the survey with its batches, where it has any."""
    if survey.folder is None or not batches_lie_in(survey.folder):
        return survey
    table, facts = read_batches(survey.folder, survey.facts)
    return Surveyed(survey.facts | {BATCHES: facts}, survey.tables | {BATCHES: table}, survey.folder)
