"""Reading the folder of a finished survey, laboratory or series: for a study, and for a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from theodolite.studies.streams import STREAMS, keep_residual, split_names
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.folder import ATTENTION, BY_FIELD, CURVES, LATER, REPORTED, open_tables
from theodolite.surveys.survey import Survey
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

    `tables` may also name "token_sets" and "batches", which are read if the folder has them, and "streams", the
    layers of all streams; the other tables have those of the residual stream. Of a laboratory or a series, all
    tables are read.
    """
    folder = download(folder)
    if is_series(folder):
        return Series.read(folder).as_survey_data(folder)
    if is_laboratory(folder):
        return read_laboratory(folder)
    facts, _ = open_tables(folder, [])
    # An older version made the survey, or its attention was not measured.
    later = {name for name in (*LATER, ATTENTION) if f"{name}.parquet" not in facts["files"]}
    _, found = open_tables(folder, [name for name in tables if name not in (TOKEN_SETS, BATCHES, STREAMS, *later)])
    if STREAMS in tables:
        found[STREAMS] = split_names(open_tables(folder, ["layers"])[1]["layers"], facts)
    survey = _make_data(facts, found | {name: empty_table(name) for name in tables if name in later}, folder)
    if BATCHES in tables:
        survey = attach_batches(survey)
    if TOKEN_SETS in tables and has_token_set_files(folder):
        return read_token_sets(folder, facts).attach_to(survey)
    return survey


def _make_data(facts: dict[str, Any], tables: Mapping[str, pd.DataFrame], folder: Path | None) -> SurveyData:
    """Return the data of a survey, of the residual stream only except for the table of streams."""
    kept, selected = keep_residual(facts, {name: table for name, table in tables.items() if name != STREAMS})
    return SurveyData(kept, selected | {name: tables[name] for name in (STREAMS,) if name in tables}, folder)


def select_tables(survey: Survey, tables: Sequence[str], folder: Path | None) -> SurveyData | None:
    """Return the named tables of a survey in memory as `read_survey_data` does; None if it lacks one of them."""
    known = {name: getattr(survey.tables, name, None) for name in tables}
    if STREAMS in known:
        known[STREAMS] = split_names(survey.layers, survey.facts)
    present = {name: table for name, table in known.items() if table is not None}
    if survey.folder is None or len(present) == len(tables):
        return _make_data(survey.facts, present, folder)
    return None


def read_report_tables(folder: str | Path | Bucket, *, umap: bool = False) -> dict[str, Any]:
    """Return the name, facts and tables of a survey as theodolite.report takes them; missing tables are empty.

    With `umap`, the sample is also projected by UMAP at a few layers.
    """
    facts, _ = open_tables(folder, [])
    path = download(folder, [SAMPLE])
    optional = (*CURVES, "contexts", "neighbours", *BY_FIELD)
    later = [name for name in optional if f"{name}.parquet" in facts["files"]]
    _, read = open_tables(folder, [*REPORTED, *later], {"tokens": TOKEN_COLUMNS})
    facts, tables = keep_residual(facts, read)
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
        path,
        per_layer=count,
        population=known[0],
        nearest=NEAREST_POINTS,
        umap=UMAP_LAYERS if umap else 0,
        layers=[int(layer["index"]) for layer in facts["layers"]],
    )
