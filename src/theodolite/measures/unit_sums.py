"""Reductions of sums by unit, (units, dim), the largest array of a survey: block by block, on the CPU or a device.

An array is reduced by numpy in the order of its rows; a tensor by torch on its device. Both are float64 and
differ only in the order of additions. Results are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.measures.cuda import unit_reductions

Array = NDArray[np.float64]
Sums = Array | Tensor
"""(units, dim) float64"""
Rows = NDArray[np.int64]

BLOCK = 2048
"""Units whose means are in memory at a time."""
DEVICE_BLOCK = 16384
"""The same on a device: 100 MB for 768 coordinates."""


def sum_units(total: Sums, rows: Rows | None = None) -> Array:
    """Return the sum over all units, or over the given rows in their order. -> (dim,)

    >>> sum_units(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 2]))
    array([6., 8.])
    """
    if isinstance(total, Tensor):
        return np.asarray(sum_sets(total, [rows])[0])
    if rows is None:
        return np.asarray(total.sum(axis=0))
    # Rows are added one after the other, as numpy adds a complete array, so that the result is that of a copy.
    held, filled = np.empty((BLOCK + 1, total.shape[1])), 0
    for start in range(0, len(rows), BLOCK):
        block_rows = rows[start : start + BLOCK]
        np.take(total, block_rows, axis=0, out=held[filled : filled + len(block_rows)], mode="clip")  # no copy
        held[0] = held[: filled + len(block_rows)].sum(axis=0)
        filled = 1
    return held[0] if filled else np.zeros(total.shape[1])


def sum_sets(total: Sums, sets: Sequence[Rows | None]) -> Array:
    """Return the sum over each set of units: some rows, or all. On a device, all are read once. -> (sets, dim)

    >>> sum_sets(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [None, np.array([0, 2])])
    array([[ 9., 12.],
           [ 6.,  8.]])
    """
    if not isinstance(total, Tensor):
        return np.stack([sum_units(total, rows) for rows in sets])
    times = np.zeros((len(sets), len(total)))
    for each, rows in zip(times, sets, strict=True):
        each[slice(None) if rows is None else rows] = 1.0
    return to_numpy(like(total, times) @ total)


def distances_of_sets(
    n: NDArray[np.int64], total: Sums, points: Sequence[Array], sets: Sequence[Rows | None]
) -> list[Array]:
    """Return |total/n - point|^2 of the units of each set from its own point. On a device, all are read once.

    n: (units,) of all units -> (units of the set,) each

    >>> distances_of_sets(np.array([1, 1]), np.array([[0.0], [2.0]]), [np.ones(1)] * 2, [None, np.array([1])])
    [array([1., 1.]), array([1.])]
    """
    if isinstance(total, Tensor):
        every = squared_distances(n, total, *points)
        return [found if rows is None else found[rows] for found, rows in zip(every, sets, strict=True)]
    return [
        squared_distances(n if rows is None else n[rows], total, point, rows=rows)[0]
        for point, rows in zip(points, sets, strict=True)
    ]


def squared_distances(n: NDArray[np.int64], total: Sums, *points: Array, rows: Rows | None = None) -> list[Array]:
    """Return |total/n - point|^2 of each unit, or of the given rows, for every point. n: (units,) -> (units,) each

    >>> squared_distances(np.array([2]), np.array([[2.0, 4.0]]), np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    [array([1.]), array([4.])]
    """
    if isinstance(total, Tensor):
        counts, middles = like(total, n), like(total, np.stack(points))
        chosen = None if rows is None else like(total, rows)
        return list(to_numpy(distances_from(counts, total, middles, chosen)))  # copied once: a copy waits
    found = [np.empty(len(n)) for _ in points]
    if rows is not None and 2 * len(rows) > len(total):  # reading all rows is faster than selecting them
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


def distances_from(counts: Tensor, total: Tensor, points: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return what `squared_distances` does, of tensors on one device. (points, dim) -> (points, units)"""
    if unit_reductions.is_supported(total):
        return unit_reductions.squared_distances(counts, total, points, rows)
    away = total.new_empty(len(points), len(counts))
    for of, block in _device_blocks(total, rows):
        each = block / counts[of, None]
        for values, middle in zip(away, points, strict=True):
            values[of] = (each - middle).square_().sum(1)
    return away


def spread_of_means(n: NDArray[np.int64], total: Sums, mean: Array) -> Array:
    """Return the sum over units of p_t (mu_i(X_t) - mean_i)^2, p_t = n_t / sum n. -> (dim,)

    >>> spread_of_means(np.array([1, 1]), np.array([[0.0, 5.0], [2.0, 5.0]]), np.array([1.0, 5.0]))
    array([1., 0.])
    """
    share = n / n.sum()
    if isinstance(total, Tensor):
        counts, weights, middle = (like(total, part) for part in (n, share, mean))
        if unit_reductions.is_supported(total):
            return to_numpy(unit_reductions.spread_of_means(counts, weights, total, middle))
        found = torch.zeros_like(middle)
        for of, block in _device_blocks(total):
            found += weights[of] @ (block / counts[of, None]).sub_(middle).square_()
        return to_numpy(found)
    spread, held = np.zeros_like(mean), np.empty((min(BLOCK, len(n)), total.shape[1]))
    for start in range(0, len(n), BLOCK):
        of = slice(start, start + BLOCK)
        away = np.divide(total[of], n[of, None], out=held[: len(n[of])])
        away -= mean
        np.square(away, out=away)
        spread += share[of] @ away
    return np.asarray(spread)


def select_rows(total: Sums, rows: Rows) -> Any:
    """Return some rows, on the device of the sums. -> (rows, dim)"""
    return total[like(total, rows)] if isinstance(total, Tensor) else total[rows]


def _device_blocks(total: Tensor, rows: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    step = DEVICE_BLOCK if total.is_cuda else BLOCK
    for start in range(0, len(total) if rows is None else len(rows), step):
        of = slice(start, start + step)
        yield of, total[of] if rows is None else total[rows[of]]


def to_numpy(values: NDArray[Any] | Tensor) -> NDArray[Any]:
    """Return an array, copied from the device if necessary."""
    return np.asarray(values.cpu().numpy()) if isinstance(values, Tensor) else values


def like(sums: Sums, values: NDArray[Any] | Tensor) -> Any:
    """Return values as sums are: a tensor on their device, or an array."""
    if not isinstance(sums, Tensor):
        return to_numpy(values)
    return to_device(values if isinstance(values, Tensor) else torch.from_numpy(values), sums.device)
