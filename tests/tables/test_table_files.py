"""Tables written in parts while later parts are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from theodolite.errors import TheodoliteError
from theodolite.measures.columns import column_names
from theodolite.tables import table_files
from theodolite.tables.table_files import TableInParts, write_table

TOKENS = column_names("tokens")


def rows(layer: int, units: int) -> pd.DataFrame:
    rng = np.random.default_rng(layer)
    numbers = {name: rng.random(units) for name in TOKENS}
    names = pd.array([f"unit {i}" for i in range(units)], dtype="str")
    return pd.DataFrame(numbers | {"layer": layer, "population": "all", "unit": names, "n": np.arange(units)})


def test_the_file_has_the_rows_and_the_schema_of_a_table_written_at_once(tmp_path: Path) -> None:
    parts = [rows(layer, units) for layer, units in ((0, 5), (1, 1), (2, 7))]
    with TableInParts(tmp_path / "tokens.parquet") as table:
        assert not table.started
        for part in parts:
            table.add(part)
        table.finish()
    at_once = tmp_path / "once" / "tokens.parquet"
    write_table(at_once, pd.concat(parts, ignore_index=True))
    ours, theirs = (pq.ParquetFile(path) for path in (tmp_path / "tokens.parquet", at_once))
    assert ours.schema_arrow.equals(theirs.schema_arrow, check_metadata=True)
    assert pd.read_parquet(tmp_path / "tokens.parquet").equals(pd.read_parquet(at_once))
    assert ours.num_row_groups == len(parts)


def test_a_table_that_is_not_finished_leaves_no_file(tmp_path: Path) -> None:
    with TableInParts(tmp_path / "tokens.parquet") as table:
        table.add(rows(0, 5))  # and then, for example, another layer raises an error
    with TableInParts(tmp_path / "tokens.parquet"):
        pass  # nothing was added
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table_files, "_to_arrow", fail)
    with TableInParts(tmp_path / "tokens.parquet") as table:
        table.add(rows(0, 5))
        table.add(rows(1, 5))
        with pytest.raises(TheodoliteError, match="disk is full"):
            table.finish()
    assert not list(tmp_path.iterdir())
