"""Sums by unit, (units, dim) and the largest thing there is: read off block by block, in memory or on a device.

As an array they are read by numpy, in the order of their rows; as a tensor by torch, where they lie. Both are
float64, so that the two differ by the order in which numbers are added and no more. What comes back is arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Sums = Array | Tensor
"""(units, dim) float64"""
Rows = NDArray[np.int64]

BLOCK = 2048
"""Units whose means are held at a time."""
BLOCK_THERE = 16384
"""The same on a device: 100 MB of 768 coordinates."""


def sum_of(total: Sums, rows: Rows | None = None) -> Array:
    """Return the sum over units, or over some of them in this order. -> (dim,)

    >>> sum_of(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 2]))
    array([6., 8.])
    """
    if isinstance(total, Tensor):
        found = total.new_zeros(total.shape[1])
        for _, block in _blocks_there(total, rows):
            found += block.sum(0)
        return _here(found)
    if rows is None:
        return np.asarray(total.sum(axis=0))
    # Row after row as numpy adds a whole array, so that it does not matter that no copy of it is made.
    held, filled = np.empty((BLOCK + 1, total.shape[1])), 0
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        np.take(total, some, axis=0, out=held[filled : filled + len(some)], mode="clip")  # checking would copy
        held[0] = held[: filled + len(some)].sum(axis=0)
        filled = 1
    return held[0] if filled else np.zeros(total.shape[1])


def squared_distances(n: NDArray[np.int64], total: Sums, *points: Array, rows: Rows | None = None) -> list[Array]:
    """Return |total/n - point|^2 of each unit, or of some, for every point. n: (units,) of those -> (units,) each

    >>> squared_distances(np.array([2]), np.array([[2.0, 4.0]]), np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    [array([1.]), array([4.])]
    """
    if isinstance(total, Tensor):
        middles = torch.from_numpy(np.stack(points)).to(total.device)
        counts = torch.from_numpy(n).to(total.device)
        away = total.new_empty(len(points), len(n))  # brought here at once: each time waits for the device
        for of, block in _blocks_there(total, rows):
            each = block / counts[of, None]
            for values, middle in zip(away, middles, strict=True):
                values[of] = (each - middle).square_().sum(1)
        return list(_here(away))
    found = [np.empty(len(n)) for _ in points]
    if rows is not None and 2 * len(rows) > len(total):  # passing over a few more is quicker than picking them out
        times = np.ones(len(total), dtype=np.int64)
        times[rows] = n
        return [values[rows] for values in squared_distances(times, total, *points)]
    held = np.empty((min(BLOCK, len(n)), total.shape[1]))
    for start in range(0, len(n), BLOCK):
        of = slice(start, start + BLOCK)
        means = held[: len(n[of])]
        if rows is None:
            np.divide(total[of], n[of, None], out=means)
        else:
            np.take(total, rows[of], axis=0, out=means, mode="clip")
            means /= n[of, None]
        for number, (values, point) in enumerate(zip(found, points, strict=True), 1):
            less = np.subtract(means, point, out=means if number == len(points) else None)
            values[of] = np.einsum("ij,ij->i", less, less)
    return found


def spread_of_means(n: NDArray[np.int64], total: Sums, mean: Array) -> Array:
    """Return the sum over units of p_t (mu_i(X_t) - mean_i)^2, p_t = n_t / sum n. -> (dim,)

    >>> spread_of_means(np.array([1, 1]), np.array([[0.0, 5.0], [2.0, 5.0]]), np.array([1.0, 5.0]))
    array([1., 0.])
    """
    share = n / n.sum()
    if isinstance(total, Tensor):
        counts, weights, middle = (torch.from_numpy(part).to(total.device) for part in (n, share, mean))
        found = torch.zeros_like(middle)
        for of, block in _blocks_there(total):
            found += weights[of] @ (block / counts[of, None]).sub_(middle).square_()
        return _here(found)
    spread, held = np.zeros_like(mean), np.empty((min(BLOCK, len(n)), total.shape[1]))
    for start in range(0, len(n), BLOCK):
        of = slice(start, start + BLOCK)
        away = np.divide(total[of], n[of, None], out=held[: len(n[of])])
        away -= mean
        np.square(away, out=away)
        spread += share[of] @ away
    return np.asarray(spread)


def _blocks_there(total: Tensor, rows: Rows | None = None) -> Iterator[tuple[slice, Tensor]]:
    chosen = None if rows is None else torch.from_numpy(rows).to(total.device)
    for start in range(0, len(total) if chosen is None else len(chosen), BLOCK_THERE):
        of = slice(start, start + BLOCK_THERE)
        yield of, total[of] if chosen is None else total[chosen[of]]


def _here(values: Tensor) -> Array:
    return np.asarray(values.cpu().numpy())
