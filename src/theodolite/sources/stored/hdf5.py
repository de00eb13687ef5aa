"""HDF5 files, such as those of ann-benchmarks: every dataset is a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.errors import TheodoliteError
from theodolite.sources.stored.table import TEXT, Batch, Field, FileTable

_METRICS = {
    "angular": "cosine",
    "cosine": "cosine",
    "euclidean": "euclidean",
    "l2": "euclidean",
    "dot": "dot",
    "ip": "dot",
}


class Hdf5Table(FileTable):
    """The datasets of a file by their paths; ann-benchmarks states the metric in the attribute "distance"."""

    def __init__(self, path: Path) -> None:
        try:
            import h5py
        except ImportError as error:
            raise TheodoliteError("Reading HDF5 requires h5py: pip install 'theodolite[stores]'.") from error

        super().__init__(path)
        self.fields = {}
        with h5py.File(path, "r") as file:
            file.visititems(self._add)
            self.metric = _METRICS.get(str(file.attrs.get("distance", "")).lower())

    def _add(self, name: str, item: Any) -> None:
        if hasattr(item, "dtype") and item.shape:
            self.fields[name] = Field(item.dtype.name if item.dtype.kind in "fiub" else TEXT, item.shape)

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named datasets."""
        import h5py

        with h5py.File(self.path, "r") as file:
            count = min(file[name].shape[0] for name in names)
            for first in range(start, count, rows):
                part = slice(first, min(first + rows, count))
                yield {
                    name: np.asarray(
                        file[name].asstr()[part] if h5py.check_string_dtype(file[name].dtype) else file[name][part]
                    )
                    for name in names
                }
