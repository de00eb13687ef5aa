"""Rows of tables on a device."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from theodolite.statistics.cuda.tables import RowIndex


@given(st.lists(st.lists(st.integers(0, 50), unique=True, max_size=20), max_size=4), st.integers(0, 60))
def test_rows_are_sorted_by_unit(batches: list[list[int]], size: int) -> None:
    index = RowIndex()
    for keys in batches:
        index.lookup(np.array(keys, dtype=np.int64))
        index.sort(index.size)  # what it remembers must not be used for more rows, or for fewer
    size = min(size, index.size)
    for first, rows in enumerate(index.sort(size)):
        keys = index.keys[rows.numpy()].tolist()
        assert keys == sorted(key for key in index.keys[:size].tolist() if key % 2 == first)
