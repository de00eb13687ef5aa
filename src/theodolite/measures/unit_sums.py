"""Reductions of sums by unit, (units, dim), the largest array of a survey: block by block, on the CPU or a device.

An array is reduced by numpy in the order of its rows; a tensor by torch on its device. Both are float64 and
differ only in the order of additions. Results are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures import unit_sums_cuda

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
        times = total.new_ones(len(total)) if rows is None else total.new_zeros(len(total))
        if rows is not None:
            times[torch.from_numpy(rows).to(total.device)] = 1.0
        return to_numpy(times @ total)
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


def squared_distances(n: NDArray[np.int64], total: Sums, *points: Array, rows: Rows | None = None) -> list[Array]:
    """Return |total/n - point|^2 of each unit, or of the given rows, for every point. n: (units,) -> (units,) each

    >>> squared_distances(np.array([2]), np.array([[2.0, 4.0]]), np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    [array([1.]), array([4.])]
    """
    if isinstance(total, Tensor):
        middles = torch.from_numpy(np.stack(points)).to(total.device)
        chosen = None if rows is None else torch.from_numpy(rows).to(total.device)
        counts = torch.from_numpy(n).to(total.device)
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
    if unit_sums_cuda.is_supported(total):
        return unit_sums_cuda.squared_distances(counts, total, points, rows)
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
        counts, weights, middle = (torch.from_numpy(part).to(total.device) for part in (n, share, mean))
        if unit_sums_cuda.is_supported(total):
            return to_numpy(unit_sums_cuda.spread_of_means(counts, weights, total, middle))
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
    return total[torch.from_numpy(rows).to(total.device)] if isinstance(total, Tensor) else total[rows]


def _device_blocks(total: Tensor, rows: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    step = DEVICE_BLOCK if total.is_cuda else BLOCK
    for start in range(0, len(total) if rows is None else len(rows), step):
        of = slice(start, start + step)
        yield of, total[of] if rows is None else total[rows[of]]


def to_numpy(values: Sums) -> Array:
    """Return an array, copied from the device if necessary."""
    return np.asarray(values.cpu().numpy()) if isinstance(values, Tensor) else values


def like(sums: Sums, values: Sums) -> Any:
    """Return values as sums are: a tensor on their device, or an array."""
    if not isinstance(sums, Tensor):
        return to_numpy(values)
    return (values if isinstance(values, Tensor) else torch.from_numpy(values)).to(sums.device)
