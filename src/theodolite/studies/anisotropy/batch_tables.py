"""The table of batches of a survey: reading, writing and summarising it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from theodolite.errors import DamagedError, InputError
from theodolite.measures.batches import BatchAverage, average_batches
from theodolite.studies.survey_data import SurveyData, owner
from theodolite.tables.table_files import write_table

BATCHES = "batches"
"""The name of the table, and the key of its settings in the facts of a survey."""
CONTIGUOUS, SHUFFLED = "contiguous", "shuffled"
AVERAGED_COLUMNS = {
    "contiguous": (CONTIGUOUS, "anisotropy_svd"),
    "shuffled": (SHUFFLED, "anisotropy_svd"),
    "twonn": (SHUFFLED, "twonn"),
}
"""By the prefix of its three columns: the kind of batches and the column averaged."""
TABLE = "batches.parquet"
FACTS = "theodolite"  # the key of the facts in the metadata of the file
ANISOTROPY = "anisotropy_svd"


def summarise_batches(table: pd.DataFrame, layers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per layer and population: `contiguous`, `shuffled`, `twonn`, each with `_sd` and `_batches`.

    Batches without a value are ignored. With the survey's table `layers`, the column `everything` is added: the
    SVD anisotropy of all positions.
    """
    rows = []
    for (layer, name, population), group in table.groupby(["layer", "layer_name", "population"], sort=False):
        row = {"layer": layer, "layer_name": name, "population": population, "n": _median_size(group)}
        for head, (kind, column) in AVERAGED_COLUMNS.items():
            average = _average(group[group["kind"] == kind][column])
            row |= {head: average.mean, f"{head}_sd": average.sd, f"{head}_batches": average.batches}
        rows.append(row)
    summary = pd.DataFrame(rows)
    if layers is None:
        return summary
    exact = layers[["layer", "population", "anisotropy_svd"]].rename(columns={"anisotropy_svd": "everything"})
    return summary.merge(exact, on=["layer", "population"], how="left")


def _average(values: pd.Series) -> BatchAverage:
    return average_batches([float(value) for value in values.dropna()])


def _median_size(group: pd.DataFrame) -> int:
    """Return the median size of the contiguous batches."""
    return int(group.loc[group["kind"] == CONTIGUOUS, "n"].median())


def write_batches(
    folder: Path, survey_facts: dict[str, Any], table: pd.DataFrame, settings: dict[str, Any]
) -> None:
    """Write the table atomically, with its settings and the identity of its survey in the metadata of the file."""
    facts = settings | {"survey": owner(survey_facts)}
    write_table(folder / TABLE, table, {FACTS: json.dumps(facts)})


def has_batches(folder: Path) -> bool:
    """Return whether a survey folder contains batches."""
    return (folder / TABLE).is_file()


def read_batches(folder: Path, survey_facts: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table and its settings; raise if the table belongs to a survey that has been replaced."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    command = f"`theodolite batches {shlex.quote(str(folder))}`"
    if not has_batches(folder):
        raise InputError(f"There are no batches in {folder}; create them with {command}.")
    try:
        arrow = pq.read_table(folder / TABLE, page_checksum_verification=True)
        facts = json.loads((arrow.schema.metadata or {})[FACTS.encode()])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise DamagedError(f"{folder / TABLE} cannot be read: {error}; create it again with {command}.") from error
    if facts["survey"] != owner(survey_facts):
        raise InputError(
            f"The batches in {folder} belong to an earlier survey of this folder; create them with {command}."
        )
    return arrow.to_pandas(), facts


def attach_batches(survey: SurveyData) -> SurveyData:
    """Return the survey with its batches, if it has any."""
    if survey.folder is None or not has_batches(survey.folder):
        return survey
    table, facts = read_batches(survey.folder, survey.facts)
    return SurveyData(survey.facts | {BATCHES: facts}, survey.tables | {BATCHES: table}, survey.folder)


def use_batch_means(survey: SurveyData, table: pd.DataFrame, population: str) -> pd.DataFrame:
    """Replace the SVD anisotropy in a table by layer by the mean over contiguous batches, low and high by its s.d.

    The new column `batches` is the number of batches. It is 0, and the values are those of all positions, unless
    every layer with a value also has batches.
    """
    without = table.assign(batches=0)
    if BATCHES not in survey.tables:
        return without
    batches = survey.tables[BATCHES]
    summary = summarise_batches(batches[batches["population"] == population])
    if not len(summary):
        return without
    rows = summary.set_index("layer").reindex(table["layer"])
    mean, sd = (rows[column].to_numpy(np.float64) for column in ("contiguous", "contiguous_sd"))
    if (np.isnan(mean) & table[ANISOTROPY].notna().to_numpy()).any():
        return without
    columns = {ANISOTROPY: mean, f"{ANISOTROPY}_low": mean - sd, f"{ANISOTROPY}_high": mean + sd}
    return table.assign(**columns, batches=rows["contiguous_batches"].fillna(0).to_numpy(int))
