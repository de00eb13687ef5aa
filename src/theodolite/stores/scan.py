"""The first pass over a store: sums, counts, row hashes and samples. Everything merges, in any order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.engines.progress import Listener, Progress
from theodolite.errors import InputError, TheodoliteError
from theodolite.hashing import mix, text_hash
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE
from theodolite.statistics.sample import Reservoir
from theodolite.stores.duplicates import hash_contents
from theodolite.stores.reader import Block, Reader
from theodolite.stores.transforms import Moments

SAMPLE_SIZE = 8192
"""Vectors kept for what sums cannot give: 25 MB for 768 coordinates."""
LISTED = 100
"""Rows of each kind (zero, not finite, shortest, longest) whose numbers are kept."""
CHUNK_ROWS = 1024
"""Rows whose float64 copies are in memory together: 6 MB each for 768 coordinates."""
UNIT_TOLERANCE = 0.01
"""A row is normalised if its norm is within this of 1; float16 and int8 round to about 0.001."""
CHECKPOINT_SECONDS = 60.0


class SmallestRows:
    """The rows of smallest key among all offered, ties by row number. Independent of order and split."""

    def __init__(self, size: int = LISTED) -> None:
        self.size = size
        self.keys, self.rows = np.empty(0, np.float64), np.empty(0, np.int64)

    def offer(self, keys: NDArray[Any], rows: NDArray[np.int64]) -> None:
        """Offer rows with their keys; keep the smallest."""
        keys, rows = np.concatenate([self.keys, keys]), np.concatenate([self.rows, rows])
        kept = np.lexsort((rows, keys))[: self.size]
        self.keys, self.rows = keys[kept], rows[kept]


class Scan:
    """Sums over the rows of a store. Rows that are zero or not finite are counted and left out of the rest.

    rows, nonfinite, zero, unnormalised  counts
    units (dim,), products (dim, dim)    sums of u and of u u', with u = x/|x|, float64
    mean, squares (dim,)                 mean of x, and sum of (x - mean)^2, by coordinate, float64
    lowest, highest (dim,)               extremes by coordinate
    norms (BINS,)                        histogram of |x|, with the bins of `theodolite.statistics.norms`
    sample                               the `sample_size` rows of smallest key, with their vectors in float32
    lists                                row numbers: "zero", "nonfinite", "shortest", "longest"
    hashes, hashed_rows (rows,)          64-bit hash of the contents of every row, and its number
    moments                              mean and scatter of x as stored, if `scatter`

    Memory: 16 bytes a row, 8 dim^2 bytes and the sample. Cost: rows dim^2 float64 products. `scatter`
    doubles the squares and products.

    >>> scan = Scan(2)
    >>> scan.update(np.arange(3), np.array([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0]]), mix(0, np.arange(3)))
    >>> scan.rows, scan.zero, scan.units.round(9).tolist(), len(np.unique(scan.hashes))
    (3, 1, [1.2, 1.6], 1)
    """

    def __init__(self, dim: int, *, sample_size: int = SAMPLE_SIZE, scatter: bool = False) -> None:
        self.dim = dim
        self.moments = Moments(dim) if scatter else None
        self.rows = self.nonfinite = self.zero = self.unnormalised = 0
        self.units = np.zeros(dim)
        self.products = np.zeros((dim, dim))
        self.mean, self.squares = np.zeros(dim), np.zeros(dim)
        self.lowest, self.highest = np.full(dim, np.inf), np.full(dim, -np.inf)
        self.norms = np.zeros(BINS, np.int64)
        self.sample = Reservoir(sample_size)
        self.lists = {name: SmallestRows() for name in ("zero", "nonfinite", "shortest", "longest")}
        self._hashes: list[NDArray[np.uint64]] = []
        self._hashed_rows: list[NDArray[np.int64]] = []

    @property
    def count(self) -> int:
        """The number of rows with a direction: finite and not zero."""
        return self.rows - self.nonfinite - self.zero

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of all rows with a direction."""
        return np.concatenate([np.empty(0, np.uint64), *self._hashes])

    @property
    def hashed_rows(self) -> NDArray[np.int64]:
        """The numbers of the rows of `hashes`."""
        return np.concatenate([np.empty(0, np.int64), *self._hashed_rows])

    def update(self, rows: NDArray[np.int64], vectors: NDArray[Any], keys: NDArray[np.uint64]) -> None:
        """Add rows (rows,), their vectors (rows, dim) and the keys by which the sample is chosen."""
        chunks = [slice(first, first + CHUNK_ROWS) for first in range(0, len(rows), CHUNK_ROWS)]
        good = np.concatenate([np.empty(0, bool), *(self._add_sums(rows[part], vectors[part]) for part in chunks)])
        if good.any():
            self.sample.offer(
                key=_signed(keys[good]),
                row=torch.from_numpy(rows[good]),
                vector=torch.from_numpy(vectors[good].astype(np.float32)),
            )

    def _add_sums(self, rows: NDArray[np.int64], vectors: NDArray[Any]) -> NDArray[np.bool_]:
        """Add rows to everything but the sample, and return which of them have a direction."""
        self.rows += len(rows)
        wide = vectors.astype(np.float64)
        finite = np.isfinite(wide).all(axis=1)
        largest = np.abs(wide).max(axis=1, initial=0.0)
        good = np.asarray(finite & (largest > 0))
        self._count("nonfinite", rows[~finite], rows[~finite])
        self._count("zero", rows[finite & ~good], rows[finite & ~good])
        if not good.any():
            return good
        if not good.all():
            rows, vectors, wide, largest = rows[good], vectors[good], wide[good], largest[good]
        # Divided by its largest coordinate first, a row's squares neither overflow nor vanish.
        scaled = wide / largest[:, None]
        lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        norms = lengths * largest
        self._add_hashes(rows, vectors)
        self._add_norms(rows, norms)
        self._add_moments(wide)
        if self.moments is not None:
            self.moments.update(wide)
        self._add_directions(scaled / lengths[:, None])
        return good

    def _count(self, name: str, keys: NDArray[Any], rows: NDArray[np.int64]) -> None:
        setattr(self, name, getattr(self, name) + len(rows))
        self.lists[name].offer(keys, rows)

    def _add_hashes(self, rows: NDArray[np.int64], vectors: NDArray[Any]) -> None:
        self._hashes.append(hash_contents(vectors))
        self._hashed_rows.append(rows.astype(np.int64))

    def _add_norms(self, rows: NDArray[np.int64], norms: NDArray[np.float64]) -> None:
        bins = ((np.log2(norms) - LOWEST_OCTAVE) * BINS_PER_OCTAVE).astype(np.int64).clip(0, BINS - 1)
        self.norms += np.bincount(bins, minlength=BINS)
        self.unnormalised += int((np.abs(norms - 1) > UNIT_TOLERANCE).sum())
        self.lists["shortest"].offer(norms, rows)
        self.lists["longest"].offer(-norms, rows)

    def _add_moments(self, wide: NDArray[np.float64]) -> None:
        before = self.count - len(wide)
        mean = wide.mean(axis=0)
        centred = wide - mean
        self._merge_moments(before, len(wide), mean, np.einsum("ij,ij->j", centred, centred))
        self.lowest = np.minimum(self.lowest, wide.min(axis=0))
        self.highest = np.maximum(self.highest, wide.max(axis=0))

    def _merge_moments(
        self, before: int, added: int, mean: NDArray[np.float64], squares: NDArray[np.float64]
    ) -> None:
        """Add the mean and the squares about it of other rows (Chan, Golub and LeVeque 1983)."""
        if not added:
            return
        share = added / (before + added)
        step = mean - self.mean
        self.mean = self.mean + share * step
        self.squares = self.squares + squares + (before * share) * step**2

    def _add_directions(self, units: NDArray[np.float64]) -> None:
        self.units += units.sum(axis=0)
        self.products += units.T @ units

    def merge(self, other: Self) -> None:
        """Add another scan of other rows."""
        if self.dim != other.dim:
            raise InputError(f"Scans of {self.dim} and of {other.dim} coordinates cannot be merged.")
        if self.moments is not None and other.moments is not None:
            self.moments.merge(other.moments)
        else:
            self.moments = None
        self._merge_moments(self.count, other.count, other.mean, other.squares)
        for name in ("rows", "nonfinite", "zero", "unnormalised", "units", "products", "norms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lowest, self.highest = (
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest, other.highest),
        )
        for name, rows in self.lists.items():
            rows.offer(other.lists[name].keys, other.lists[name].rows)
        if len(other.sample):
            self.sample.offer(**other.sample.rows)
        self._hashes += other._hashes
        self._hashed_rows += other._hashed_rows

    def number_from(self, start: int) -> None:
        """Add `start` to all row numbers: these rows follow those of another part."""
        for name, held in self.lists.items():
            held.rows = held.rows + start
            if name in ("zero", "nonfinite"):  # their keys are row numbers
                held.keys = held.keys + start
        if len(self.sample):
            self.sample.rows["row"] = self.sample.rows["row"] + start
        self._hashed_rows = [rows + start for rows in self._hashed_rows]

    def state(self) -> dict[str, Tensor]:
        """Return everything as tensors; `from_state` restores it."""
        arrays: dict[str, NDArray[Any]] = {
            "counts": np.array([self.rows, self.nonfinite, self.zero, self.unnormalised, self.sample.size]),
            "hashes": self.hashes.view(np.int64),
            "hashed_rows": self.hashed_rows,
        }
        arrays |= {name: getattr(self, name) for name in SUMS}
        if self.moments is not None:
            arrays |= {"moments.mean": self.moments.mean, "moments.scatter": self.moments.scatter}
        for name, rows in self.lists.items():
            arrays |= {f"list.{name}.keys": rows.keys, f"list.{name}.rows": rows.rows}
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}
        return tensors | {f"sample.{name}": values for name, values in self.sample.sorted().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """Return the scan that `state` was taken from."""
        rows, nonfinite, zero, unnormalised, size = state["counts"].tolist()
        scan = cls(len(state["units"]), sample_size=size)
        scan.rows, scan.nonfinite, scan.zero, scan.unnormalised = rows, nonfinite, zero, unnormalised
        for name in SUMS:
            setattr(scan, name, state[name].numpy().copy())
        if "moments.mean" in state:
            mean, scatter = (state[f"moments.{name}"].numpy().copy() for name in ("mean", "scatter"))
            scan.moments = Moments(scan.dim, scan.count, mean, scatter)
        for name, held in scan.lists.items():
            held.keys, held.rows = (state[f"list.{name}.{field}"].numpy() for field in ("keys", "rows"))
        scan.sample.rows = {
            name: state[f"sample.{name}"].clone() for name in ("key", "row", "vector") if f"sample.{name}" in state
        }
        scan._hashes = [state["hashes"].numpy().view(np.uint64)]
        scan._hashed_rows = [state["hashed_rows"].numpy()]
        return scan


SUMS = ("units", "products", "mean", "squares", "lowest", "highest", "norms")


def _signed(keys: NDArray[np.uint64]) -> Tensor:
    """Return keys as int64 in the same order; torch sorts no unsigned numbers."""
    return torch.from_numpy((keys >> np.uint64(1)).astype(np.int64))


def scan_store(
    reader: Reader,
    *,
    scan: Scan | None = None,
    sample_size: int = SAMPLE_SIZE,
    scatter: bool = False,
    save: Callable[[Scan], None] | None = None,
    listener: Listener | None = None,
) -> Scan:
    """Read the rows of a store that `scan` does not have yet, all of them by default, and return the scan.

    `save` is called about every minute, and when the listener asks to stop.
    """
    listener = listener or Listener()
    scan = scan or Scan(reader.dim, sample_size=sample_size, scatter=scatter)
    key = text_hash(reader.digest)
    started = saved = time.monotonic()
    first = scan.rows
    for block in reader.blocks(first):
        _check_block(reader, block, scan.rows)
        scan.update(block.rows, block.vectors, mix(key, block.rows))
        now = time.monotonic()
        total = reader.count or 0
        share = scan.rows / total if total else 0.0
        listener.progress(
            Progress(share, scan.rows - first, now - started, first / total if total else 0.0, "rows")
        )
        stop = listener.stop()
        if save is not None and (stop or now - saved > CHECKPOINT_SECONDS):
            save(scan)
            saved = time.monotonic()
        if stop:
            raise TheodoliteError(
                f"Stopped after {scan.rows:,} rows." + (" Continue with --resume." if save is not None else "")
            )
    if reader.count is not None and scan.rows != reader.count:
        raise TheodoliteError(
            f"{reader.name} has changed while it was read: it had {reader.count:,} rows, and {scan.rows:,} were "
            "read. Measure a copy, or measure again when nothing writes to it."
        )
    return scan


def _check_block(reader: Reader, block: Block, expected: int) -> None:
    if block.vectors.shape[1] != reader.dim:
        raise InputError(
            f"{reader.name}: rows from {block.start} on have {block.vectors.shape[1]} coordinates, those before "
            f"{reader.dim}. Keep vectors of different models in different stores."
        )
    if block.start != expected:
        raise TheodoliteError(f"{reader.name}: expected row {expected:,} next, got row {block.start:,}.")
