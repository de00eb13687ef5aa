"""A dataset of the `datasets` library: hf:NAME[@REVISION][:CONFIG][:SPLIT], from the hub or a local folder."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from theodolite.corpora.hf_datasets import find_dataset, load_rows
from theodolite.errors import TheodoliteError
from theodolite.sources.stored.arrow_files import convert_columns, make_fields
from theodolite.sources.stored.table import Batch


class DatasetTable:
    """A split of a dataset, at one commit; streamed unless it lies in a folder of save_to_disk."""

    metric: str | None = None
    notes: tuple[str, ...] = ()

    def __init__(self, source: str) -> None:
        try:
            self._name = find_dataset(source)
        except TheodoliteError as error:
            raise type(error)(error.message.replace("CORPUS", "SOURCE", 1)) from error
        self._rows = load_rows(self._name).with_format("arrow")
        count = len(self._rows) if hasattr(self._rows, "__len__") else None
        schema = self._rows.features.arrow_schema if self._rows.features else self._first("").schema
        self.fields = make_fields(schema, count, lambda name: iter([self._first(name)[name].combine_chunks()]))

    def _first(self, name: str) -> Any:
        rows = self._rows.select_columns([name]) if name else self._rows
        return next(iter(rows.iter(batch_size=64)))

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named columns."""
        row = start
        for table in self._rows.select_columns(list(names)).skip(start).iter(batch_size=rows):
            yield convert_columns(table, names, row)
            row += table.num_rows

    def digest(self) -> str:
        """Return a digest of name and commit; of a folder, of the library's fingerprint of its data."""
        mark = getattr(self._rows, "_fingerprint", None) or self._name
        return sha256(f"{mark} {self._rows.split}".encode()).hexdigest()

    def state(self) -> Hashable:
        """A commit does not change."""
        return self._name
