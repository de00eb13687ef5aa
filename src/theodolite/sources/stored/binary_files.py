"""Files of the benchmarks of nearest neighbours: .fvecs, .bvecs, .ivecs, and .fbin, .u8bin, .i8bin, .ibin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from theodolite.errors import InputError
from theodolite.sources.stored.array_files import RawRows
from theodolite.sources.stored.table import Batch, Field, FileTable

VECS = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}
"""Every row is its length in four bytes, then its coordinates."""
BIN = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1", ".ibin": "<i4"}
"""Number of rows and length of a row, four bytes each, then all coordinates."""


class VecsTable(FileTable):
    """Rows that are each preceded by their length."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        size = path.stat().st_size
        head = np.fromfile(path, "<i4", 1)
        dim = int(head[0]) if len(head) else 0
        dtype = np.dtype(VECS[path.suffix.lower()])
        stride = 4 + dim * dtype.itemsize
        if len(head) and (dim <= 0 or size < stride):
            raise InputError(f"the first row states a length of {dim:,}, but the file has {size:,} bytes.")
        if size % stride:
            raise InputError(
                f"{size:,} bytes are not a whole number of rows of {dim:,} coordinates: the file is incomplete or "
                "its vectors differ in length."
            )
        count = size // stride if dim else 0
        row = np.dtype([("length", "<i4"), ("vector", dtype, (dim,))])
        self.fields = {"vectors": Field(dtype.name, (count, dim))}
        self._rows = RawRows(path, row, (count,), 0)

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows; a row that states another length is an error."""
        count, dim = self.fields["vectors"].shape
        for first in range(start, count or 0, rows):
            part = self._rows.read(first, rows)
            other = np.flatnonzero(part["length"] != dim)
            if len(other):
                raise InputError(
                    f"all vectors must have the same length, but row {first + int(other[0]):,} has "
                    f"{int(part['length'][other[0]]):,} coordinates and row 0 has {dim:,}."
                )
            yield {"vectors": np.ascontiguousarray(part["vector"])}


class BinTable(FileTable):
    """Rows of one length, which is stated once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        head = np.fromfile(path, "<u4", 2)
        count, dim = (int(head[0]), int(head[1])) if len(head) == 2 else (0, 0)
        dtype = np.dtype(BIN[path.suffix.lower()])
        size, stated = path.stat().st_size, 8 + count * dim * dtype.itemsize
        if size != stated:
            raise InputError(
                f"it states {count:,} vectors of {dim:,} coordinates, {stated:,} bytes, but it has {size:,} bytes."
            )
        self.fields = {"vectors": Field(dtype.name, (count, dim))}
        self._rows = RawRows(path, dtype, (count, dim), 8)

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows."""
        for first in range(start, self._rows.shape[0], rows):
            yield {"vectors": self._rows.read(first, rows)}
