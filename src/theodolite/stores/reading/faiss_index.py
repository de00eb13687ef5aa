"""A FAISS index as a table: its vectors as they are reconstructed from what the index stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError, first_line
from theodolite.sources.stored.table import Batch, Field, FileTable
from theodolite.stores.reading.extras import require

ENDINGS = (".faiss", ".index")
_EXACT = (
    "IndexFlat",
    "IndexFlatL2",
    "IndexFlatIP",
    "IndexIVFFlat",
    "IndexHNSWFlat",
    "IndexNSGFlat",
    "IndexRefineFlat",
)


class FaissTable(FileTable):
    """An index of floats or of bits. Rows are in the order of ids, or in the order of adding under an IDMap.

    The file is mapped where FAISS can do so; other parts of an index are read into memory.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._faiss = require("faiss", "faiss-cpu")
        self._ids: NDArray[np.int64] | None = None
        self._binary = False
        try:
            self._index = self._faiss.read_index(str(path), self._faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            try:
                self._index = self._faiss.read_index_binary(str(path))
            except RuntimeError:
                raise InputError(f"it is no index that FAISS reads: {_reason(error)}") from error
            self._binary = True
        self._index = self._unwrap(self._index)
        count, dim = self._index.ntotal, self._index.d
        self.fields = {
            "vectors": Field("uint8" if self._binary else "float32", (count, dim // 8 if self._binary else dim))
        }
        if self._binary:
            self.notes = ("The index holds bits, which are read as -1 and 1.",)
        else:
            metrics = {self._faiss.METRIC_INNER_PRODUCT: "dot", self._faiss.METRIC_L2: "euclidean"}
            self.metric = metrics.get(self._index.metric_type)
        self._keys = self._find_keys() if count else np.arange(0)
        if self._ids is not None:
            self.fields["id"] = Field("int64", (count,))

    @property
    def packing(self) -> str | None:
        """How the vectors are packed."""
        return "binary" if self._binary else None

    def _unwrap(self, index: Any) -> Any:
        """Return the index inside maps of ids, and remember the ids."""
        faiss = self._faiss
        maps = (faiss.IndexIDMap, faiss.IndexIDMap2, faiss.IndexBinaryIDMap, faiss.IndexBinaryIDMap2)
        while isinstance(index, maps):
            if self._ids is None:
                self._ids = faiss.vector_to_array(index.id_map)
            outer = index  # owns the inner one
            index = (faiss.downcast_IndexBinary if self._binary else faiss.downcast_index)(index.index)
            index.referenced_objects = [outer]
        return index

    def _find_keys(self) -> NDArray[np.int64]:
        """Return the number under which the index knows each row, after testing that it can give vectors back."""
        faiss, index = self._faiss, self._index
        kind = type(index).__name__
        keys = np.arange(index.ntotal)
        ivf = None if self._binary else faiss.downcast_index(faiss.try_extract_index_ivf(index))
        if ivf is not None:
            if isinstance(ivf, faiss.IndexIVFFastScan):
                raise InputError(f"an index of type {kind} with FastScan lists cannot give its vectors back.")
            lists = ivf.invlists
            keys = np.concatenate([_list_ids(faiss, lists, number) for number in range(lists.nlist)])
            keys = np.sort(keys)
            ivf.set_direct_map_type(faiss.DirectMap.Hashtable)
            if self._ids is None and (keys != np.arange(len(keys))).any():
                self._ids = keys
        elif self._binary and isinstance(index, faiss.IndexBinaryIVF):
            index.make_direct_map()
        try:
            index.reconstruct(int(keys[0]))  # one row: within a batch the error would end the process
        except RuntimeError as error:
            raise InputError(f"an index of type {kind} cannot give its vectors back: {_reason(error)}") from error
        if kind not in _EXACT and not self._binary:
            self.notes = (
                f"The index ({kind}) does not hold the vectors themselves: they are reconstructed from its codes, "
                "and all results are about these approximations.",
            )
        return keys

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield reconstructed rows and their ids."""
        for first in range(start, len(self._keys), rows):
            keys = self._keys[first : first + rows]
            batch: Batch = {}
            if "vectors" in names:
                batch["vectors"] = self._reconstruct(keys)
            if "id" in names and self._ids is not None:
                batch["id"] = self._ids[first : first + rows]
            yield batch

    def _reconstruct(self, keys: NDArray[np.int64]) -> NDArray[Any]:
        if not self._binary:
            return np.asarray(self._index.reconstruct_batch(keys))
        return np.stack([self._index.reconstruct(key) for key in keys.tolist()])


def _list_ids(faiss: Any, lists: Any, number: int) -> NDArray[np.int64]:
    size = lists.list_size(number)
    if not size:
        return np.empty(0, dtype=np.int64)
    return np.array(faiss.rev_swig_ptr(lists.get_ids(number), size), dtype=np.int64)


def _reason(error: Exception) -> str:
    """Return what FAISS says, without the place in its source."""
    return first_line(error).rpartition(": ")[2]
