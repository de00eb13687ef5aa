"""Orders of integers by counting their parts of 16 bits, a fraction of the cost of comparing them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_BITS = 16  # numpy sorts integers of this size by counting
_LOWER = 31  # bits of a hash below its upper 32


def find_stable_order(codes: Ints) -> Ints:
    """Return the stable order of integers, which is fast for those in [0, 2^32). (rows,) -> (rows,)

    >>> find_stable_order(np.array([70_000, 2, 70_000, 1])).tolist()
    [3, 1, 0, 2]
    """
    if not len(codes) or codes.min() < 0 or (most := codes.max()) >= 2 ** (2 * _BITS):
        return np.argsort(codes, kind="stable")
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # by the lower bits
    if most < 2**_BITS:
        return order
    return order[np.argsort((codes >> _BITS).astype(np.uint16)[order], kind="stable")]


def order_hashes(hashes: Ints) -> Ints:
    """Return the order of hashes in [0, 2^63), of which few have equal upper halves. (rows,) -> (rows,)

    >>> order_hashes(np.array([2**62, 5, 4, 2**61])).tolist()
    [2, 1, 3, 0]
    """
    upper = hashes >> _LOWER
    order = find_stable_order(upper)
    tied = np.flatnonzero(np.diff(upper[order]) == 0)
    rows = np.union1d(tied, tied + 1)  # those of one upper half are adjacent, so one sort serves all of them
    order[rows] = order[rows][np.argsort(hashes[order[rows]])]
    return order
