"""Reading the folder of a finished survey, laboratory or series: for a study, and for a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.storage.bucket import Bucket
from theodolite.storage.download import download
from theodolite.storage.file_names import SAMPLE
from theodolite.studies.anisotropy.batch_tables import BATCHES, attach_batches
from theodolite.studies.laboratory import is_laboratory, read_laboratory
from theodolite.studies.norm_variance.token_set_files import TOKEN_SETS, has_token_set_files, read_token_sets
from theodolite.studies.projections import projections
from theodolite.studies.series import Series, is_series
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.folder import BY_FIELD, CURVES, LATER, REPORTED, open_tables
from theodolite.tables.tables import empty_table
from theodolite.text import survey_name

DEFAULT_TABLES = ("layers", "tokens", "units")
TOKEN_COLUMNS = ("layer", "population", "unit", "n", "m", "v")
POINTS_PER_LAYER, REFERENCE_WIDTH = 20_000, 768
"""Vectors drawn per layer in a report, up to this dimension; fewer in wider layers."""
NEAREST_POINTS, UMAP_LAYERS = 4, 4
"""Nearest vectors listed for each vector, and layers that are projected by UMAP, which takes seconds each."""
MAX_POINTS, MIN_POINTS = 24_000, 300
"""At most this number of vectors over all layers, and at least this number per layer."""


def read_survey_data(folder: str | Path, tables: Sequence[str] = DEFAULT_TABLES) -> SurveyData:
    """Read the facts and the named tables of a finished survey, never its state.

    `tables` may also name "token_sets" and "batches", which are read if the folder has them. Of a laboratory or a
    series, all tables are read.
    """
    folder = download(folder)
    if is_series(folder):
        return Series.read(folder).as_survey_data(folder)
    if is_laboratory(folder):
        return read_laboratory(folder)
    facts, _ = open_tables(folder, [])
    later = {name for name in LATER if f"{name}.parquet" not in facts["files"]}  # an older version made the survey
    _, found = open_tables(folder, [name for name in tables if name not in (TOKEN_SETS, BATCHES, *later)])
    survey = SurveyData(facts, found | {name: empty_table(name) for name in tables if name in later}, folder)
    if BATCHES in tables:
        survey = attach_batches(survey)
    if TOKEN_SETS in tables and has_token_set_files(folder):
        return read_token_sets(folder, facts).attach_to(survey)
    return survey


def read_report_tables(folder: str | Path | Bucket, *, umap: bool = False) -> dict[str, Any]:
    """Return the name, facts and tables of a survey as theodolite.report takes them; missing tables are empty.

    With `umap`, the sample is also projected by UMAP at a few layers.
    """
    facts, _ = open_tables(folder, [])
    path = download(folder, [SAMPLE])
    optional = (*CURVES, "contexts", "neighbours", *BY_FIELD)
    later = [name for name in optional if f"{name}.parquet" in facts["files"]]
    _, tables = open_tables(folder, [*REPORTED, *later], {"tokens": TOKEN_COLUMNS})
    projected = _project_sample(path, facts, umap=umap)
    return {"name": survey_name(facts), "facts": facts, **tables, "projections": projected}


def points_per_layer(layers: int, dim: int) -> int:
    """Return the number of vectors to draw per layer; wide vectors and many layers reduce it to limit the cost.

    >>> points_per_layer(13, 768), points_per_layer(32, 576), points_per_layer(33, 4096)
    (1846, 750, 727)
    """
    wide = POINTS_PER_LAYER * math.sqrt(min(1.0, REFERENCE_WIDTH / max(dim, 1)))
    return max(MIN_POINTS, int(min(wide, MAX_POINTS / max(layers, 1))))


def _project_sample(path: Path, facts: dict[str, Any], *, umap: bool) -> pd.DataFrame:
    """Return the projected sample; empty if the survey has no sample or its file was removed."""
    known = facts["populations"]
    if not known or not (path / SAMPLE).is_file():
        return pd.DataFrame()
    dim = max((int(layer["dim"]) for layer in facts["layers"]), default=0)
    count = points_per_layer(len(facts["layers"]), dim)
    return projections(
        path, per_layer=count, population=known[0], nearest=NEAREST_POINTS, umap=UMAP_LAYERS if umap else 0
    )
