"""Ids, labels, texts and times of rows that tables list, read from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from theodolite.stores.reader import Reader
from theodolite.text import encodable

ROW_COLUMNS = ("row", "copy_of", "nearest")
"""Columns of tables that contain row numbers."""
LONGEST_TEXT = 300
MOST_ROWS = 200_000
"""Rows that get details, in the order of their numbers: tables may list millions of copies."""


def add_details(tables: Mapping[str, pd.DataFrame], reader: Reader) -> dict[str, pd.DataFrame]:
    """Return the tables with the columns of the store beside each column of row numbers; reads the store once.

    The id of `row` is `id`, that of `copy_of` is `copy_of_id`, and so on.
    """
    used = [table[name] for table in tables.values() for name in ROW_COLUMNS if name in table]
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *used]).astype(np.int64))[:MOST_ROWS]
    if not reader.columns or not len(rows):
        return dict(tables)
    details = _read_details(reader, rows)
    return {name: _join(table, details) for name, table in tables.items()}


def _read_details(reader: Reader, rows: np.ndarray[Any, np.dtype[np.int64]]) -> pd.DataFrame:
    found: dict[str, list[Any]] = {name: [] for name in reader.columns}
    for block in reader.blocks():
        low, high = np.searchsorted(rows, [block.start, block.start + len(block)])
        for name, values in found.items():
            values += [_plain(value) for value in block.columns[name][rows[low:high] - block.start]]
        if high == len(rows):
            break
    return pd.DataFrame(found, index=rows)


def _plain(value: Any) -> Any:
    """Return a value that Parquet stores: long texts are cut, numbers stay numbers."""
    if isinstance(value, str):
        shown = value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"
        return encodable(shown)
    return value.item() if isinstance(value, np.generic) else value


def _join(table: pd.DataFrame, details: pd.DataFrame) -> pd.DataFrame:
    joined = table
    for name in ROW_COLUMNS:
        if name not in table:
            continue
        added = details.reindex(table[name]).reset_index(drop=True)
        added.columns = pd.Index([column if name == "row" else f"{name}_{column}" for column in added.columns])
        joined = pd.concat([joined.reset_index(drop=True), added], axis=1)
    return joined
