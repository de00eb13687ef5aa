"""Near duplicates over all rows: pairs of different rows with a cosine of at least a bound.

Comparing all pairs would take n^2 products. Each row gets 512 bits instead, the signs of random projections of its
unit vector minus the mean of all (Charikar 2002). Rows that agree in all bits of some band are candidates; the
number of bits in which they differ estimates their angle, and those that may be close enough are measured exactly.
Rows are found with a probability below 1, which is measured with the rows whose neighbours are known exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.stores.reader import Block, Reader

BITS = 512
WINDOW = 64
"""Rows with equal bands are compared with this many that follow; more are rare and waste time."""
SPARE = 4.0
"""Standard errors by which the bits of a pair may exceed those expected at the bound."""
MOST_PAIRS = 50_000
"""Candidates that are measured, those with the most equal bits: 300 MB for 768 coordinates."""
Pairs = NDArray[np.int64]


class Signatures:
    """The bits of every row: 64 bytes a row. Rows that are zero or not finite have none.

    mean  (dim,) mean of the unit vectors of the store
    """

    def __init__(self, mean: NDArray[np.float64], seed: int = 0) -> None:
        self.mean = mean
        self._directions = np.random.default_rng(seed).standard_normal((len(mean), BITS)).astype(np.float32)
        self._offset = (mean @ self._directions).astype(np.float32)
        self._rows: list[NDArray[np.int64]] = []
        self._bits: list[NDArray[np.uint64]] = []
        self.is_complete = True
        """Whether `candidates` returned all that it found."""

    def update(self, block: Block) -> None:
        """Add the rows of a block. Cost: 1,024 dim operations a row."""
        with np.errstate(all="ignore"):
            vectors = block.vectors.astype(np.float32)
            norms = np.linalg.norm(vectors, axis=1)
            good = np.isfinite(norms) & (norms > 0)
            units = vectors[good] / norms[good, None]
        signs = units @ self._directions > self._offset
        self._rows.append(block.rows[good])
        self._bits.append(np.packbits(signs, axis=1).view(np.uint64))

    def state(self) -> dict[str, Tensor]:
        """Return the bits and row numbers as tensors."""
        rows, bits = self._joined()
        return {"signature_rows": torch.from_numpy(rows), "signature_bits": torch.from_numpy(bits.view(np.int64))}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state of signatures with the same mean."""
        self._rows = [state["signature_rows"].numpy()]
        self._bits = [state["signature_bits"].numpy().view(np.uint64)]

    def _joined(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        return (
            np.concatenate([np.empty(0, np.int64), *self._rows]),
            np.concatenate([np.empty((0, BITS // 64), np.uint64), *self._bits]),
        )

    def candidates(self, bound: float, mean_cosine: float, keep: NDArray[np.bool_]) -> Pairs:
        """Return pairs of rows that may reach the bound: (pairs, 2) row numbers, each pair once, ascending.

        keep: (rows of the store,) rows to compare, such as one of each group of exact copies.
        """
        rows, bits = self._joined()
        chosen = keep[rows]
        rows, bits = rows[chosen], bits[chosen]
        most = largest_difference(bound, mean_cosine)
        found, differences = np.empty(0, np.int64), np.empty(0, np.int64)
        for left, right, differing in _pairs_in_bands(bits, most):
            low, high = np.minimum(left, right), np.maximum(left, right)
            found, first = np.unique(np.concatenate([found, low * len(rows) + high]), return_index=True)
            differences = np.concatenate([differences, differing])[first]
            if len(found) > MOST_PAIRS:
                closest = np.sort(np.argsort(differences, kind="stable")[:MOST_PAIRS])
                found, differences, self.is_complete = found[closest], differences[closest], False
        return np.stack([rows[found // max(1, len(rows))], rows[found % max(1, len(rows))]], axis=1)


def largest_difference(bound: float, mean_cosine: float) -> float:
    """Return how many of the bits may differ in a pair whose cosine is the bound.

    Without the mean, unit vectors have squared norms of about 1 - mean_cosine, and the same distance between them.
    """
    distance = 2 * (1 - bound) / max(1e-9, 1 - max(0.0, mean_cosine))
    share = np.arccos(np.clip(1 - distance / 2, -1, 1)) / np.pi
    return float(BITS * share + SPARE * np.sqrt(BITS * share * (1 - share)))


def _pairs_in_bands(
    bits: NDArray[np.uint64], most: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of rows that agree in a band of bits and differ in at most `most`, and in how many they differ.

    At most WINDOW pairs a row and band.
    """
    if len(bits) < 2:
        return
    width = int(np.clip(np.log2(len(bits)) - 2, 6, 24))
    unpacked = np.unpackbits(bits.view(np.uint8), axis=1) if len(bits) * BITS <= 2**26 else None
    for first in range(0, BITS - width + 1, width):
        if unpacked is not None:
            band = unpacked[:, first : first + width]
        else:
            columns = slice(first // 8, (first + width + 7) // 8)
            part = np.unpackbits(bits.view(np.uint8)[:, columns], axis=1)
            band = part[:, first % 8 : first % 8 + width]
        values = band @ (1 << np.arange(width))
        order = np.argsort(values, kind="stable")
        ordered, neighbours = values[order], bits[order]  # rows to compare are then near each other in memory
        for step in range(1, WINDOW + 1):
            equal = np.flatnonzero(ordered[step:] == ordered[:-step])
            if not len(equal):
                break
            differing = np.bitwise_count(neighbours[equal] ^ neighbours[equal + step]).sum(axis=1, dtype=np.int64)
            near = differing <= most
            if near.any():
                equal = equal[near]
                yield order[equal], order[equal + step], differing[near]


def measure_pairs(reader: Reader, pairs: Pairs, bound: float) -> pd.DataFrame:
    """Return the pairs that reach the bound, with their cosines: row, nearest, cosine.

    Reads the store once, and keeps the vectors of the rows of pairs in float32.
    """
    wanted = np.unique(pairs)
    kept = np.empty((len(wanted), reader.dim), np.float32)
    for block in reader.blocks():
        low, high = np.searchsorted(wanted, [block.start, block.start + len(block)])
        kept[low:high] = block.vectors[wanted[low:high] - block.start]
    kept /= np.linalg.norm(kept, axis=1, keepdims=True)
    left, right = np.searchsorted(wanted, pairs[:, 0]), np.searchsorted(wanted, pairs[:, 1])
    cosines = np.empty(len(pairs))
    for start in range(0, len(pairs), 8192):
        part = slice(start, start + 8192)
        cosines[part] = np.einsum("ij,ij->i", kept[left[part]], kept[right[part]], dtype=np.float64)
    near = cosines >= bound
    table = pd.DataFrame({"row": pairs[near, 0], "nearest": pairs[near, 1], "cosine": cosines[near]})
    return table.sort_values(["cosine", "row", "nearest"], ascending=[False, True, True], ignore_index=True)
