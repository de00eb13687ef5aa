"""Rows of tables on a device."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

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


def test_keys_that_two_threads_look_up() -> None:
    """Batches are prepared in a thread and, if the device was full, in the main one."""
    rows, keys, before = RowIndex(), np.arange(20_000), sys.getswitchinterval()
    halves = [np.split(keys[first::2], 5_000) for first in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            found = [np.concatenate(half) for half in pool.map(lambda half: list(map(rows.lookup, half)), halves)]
    finally:
        sys.setswitchinterval(before)
    assert sorted(np.concatenate(found).tolist()) == keys.tolist()
    for first, half in enumerate(found):
        assert rows.keys[half].tolist() == keys[first::2].tolist()
