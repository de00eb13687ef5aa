"""Exact duplicates over all rows of a store, from the hashes of their contents."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def hash_contents(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of the numbers of each row; 0.0 and -0.0 are equal. (rows, dim) -> (rows,)

    >>> first, second, third = hash_contents(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]]))
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    contents = np.ascontiguousarray(np.where(vectors == 0, vectors.dtype.type(0), vectors))  # -0.0 becomes 0.0
    digests = b"".join(blake2b(row, digest_size=8).digest() for row in contents)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def find_duplicates(hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> pd.DataFrame:
    """Return `row`, `copy_of` (the first equal row) and `copies` (the number of equal rows) of every repeated row.

    Rows whose hashes are equal count as equal. Cost: sorting n numbers. The first row of each group is not listed.

    >>> find_duplicates(np.array([7, 5, 7, 7], np.uint64), np.arange(4)).to_dict("list")
    {'row': [2, 3], 'copy_of': [0, 0], 'copies': [3, 3]}
    """
    order = np.lexsort((rows, hashes))
    ordered, names = hashes[order], rows[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
    sizes = np.diff([*starts, len(ordered)])
    table = pd.DataFrame(
        {"row": names, "copy_of": np.repeat(names[starts], sizes), "copies": np.repeat(sizes, sizes)}
    )
    return table[table["row"] != table["copy_of"]].sort_values("row", ignore_index=True)


def chance_of_collision(count: int) -> float:
    """Return the chance that any two of `count` different rows have the same 64-bit hash.

    >>> f"{chance_of_collision(10**6):.1g}"
    '3e-08'
    """
    return float(-np.expm1(-count * (count - 1) / 2**65))
