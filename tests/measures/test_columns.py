"""The registry of columns knows every column that a survey writes, and says what each is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.small_models import sentences

import theodolite
from theodolite.measures.columns import (
    COLUMNS,
    DERIVED,
    GROUPS,
    MEAN_NORM,
    OTHER,
    Column,
    column_names,
    find_column,
    group_columns,
    integer_columns,
)
from theodolite.measures.formula import formulas

EVERY = [column for columns in COLUMNS.values() for column in columns.values()] + [*DERIVED, MEAN_NORM]
FORMATS = {"text": ("string", "bool"), "integer": ("int64",), "share": ("double", "float"), "number": ("double",)}


@pytest.fixture(scope="module")
def surveys(small_model: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of surveys that write different columns: plain, with contextuality, and of vectors."""
    root = tmp_path_factory.mktemp("columns")
    documents, few = sentences(40, seed=5), {"sample_size": 64}
    theodolite.survey(small_model("bert"), documents, by="length", attention=True, out=root / "plain", **few)
    contextual: dict[str, Any] = {"units": "word", "contextuality": True, "by": "length", **few}
    theodolite.survey(small_model("gpt2"), documents, out=root / "contextual", **contextual)
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    theodolite.measure(vectors, by=["a", "b", "c"] * 100, out=root / "vectors")
    return {name: root / name for name in ("plain", "contextual", "vectors")}


@pytest.mark.parametrize("kind", ["plain", "contextual", "vectors"])
@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_that_a_survey_writes_is_in_the_registry(
    surveys: dict[str, Path], kind: str, table: str
) -> None:
    if table == "attention" and kind != "plain":  # measured only if asked for
        assert not (surveys[kind] / "attention.parquet").exists()
        return
    schema = pq.read_schema(surveys[kind] / f"{table}.parquet")
    assert schema.names == column_names(table)
    if kind == "vectors" and table in ("tokens", "units"):  # vectors without groups: no rows, hence no types
        return
    for name, values in zip(schema.names, schema.types, strict=True):
        allowed = FORMATS[COLUMNS[table][name].format]
        assert str(values).removeprefix("large_") in (*allowed, "null"), name


@pytest.mark.parametrize("column", EVERY, ids=lambda column: f"{column.table}.{column.name}")
def test_every_column_has_meaning_labels_and_a_known_group(column: Column) -> None:
    for text in (column.label, column.title, column.meaning):
        assert text.strip() == text != ""
    assert column.group in GROUPS
    assert not column.meaning.endswith(".")
    assert "_" not in column.title.replace("V_W", "").replace("V_B", "").replace("hidden_states", "") or (
        column.table == "coordinates"
    ), "a title is not a raw column name"


@pytest.mark.parametrize("table", COLUMNS)
def test_labels_and_titles_are_unique_within_a_table(table: str) -> None:
    columns = [*COLUMNS[table].values(), *([*DERIVED, MEAN_NORM] if table == "layers" else [])]
    for of in ("label", "title"):
        texts = [getattr(column, of).lower() for column in columns]
        assert len(texts) == len(set(texts)), sorted(text for text in texts if texts.count(text) > 1)


def test_every_measured_column_has_a_registered_formula() -> None:
    known = formulas()
    keys = {"layer", "population", "coordinate", "rank", "scale", "unit"}
    plain = {
        "layers": "library_index n types dim twonn_n zero nonfinite massive sample_duplicates "
        "sample_near_duplicates norm_min norm_max"
    }
    plain |= {"units": "row id special tokens_per_unit", "tokens": "n", "scales": "n", "jackknife": "group"}
    plain |= {"contexts": "key document window position", "attention": "head n windows pairs"}
    plain["groups"] = f"documents {plain['layers']}"
    for table, columns in COLUMNS.items():
        for column in columns.values():
            if column.format == "text" or column.name in keys or column.name in plain.get(table, "").split():
                assert not column.formula, column
            else:
                assert column.formula in known, (table, column.name)


def test_columns_of_other_papers_have_meanings() -> None:
    assert "same unit" in find_column("self_similarity").meaning
    assert "window" in find_column("intra_similarity").meaning
    assert "principal component" in find_column("mev").meaning


def test_groups_hold_each_column_once() -> None:
    found = [column.name for columns in group_columns().values() for column in columns]
    assert len(found) == len(set(found))
    assert "unfiltered_text_units_used" in [column.name for column in group_columns()[OTHER]]
    assert find_column("unfiltered_text_units_used").title == "Text units"


def test_integers_and_bounds() -> None:
    assert {"n", "pca_dim_90", "mev_units", "rogue_half"} <= set(integer_columns())
    assert find_column("mean_cosine").bounds == (-1.0, 1.0)
    assert find_column("rogue_cosine_share").bounds is None  # it may exceed 1
    assert find_column("m_of_q").parts == ("m", "q")
    assert find_column("m_of_q").formula == "qmv/all"
