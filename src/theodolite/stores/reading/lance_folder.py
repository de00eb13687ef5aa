"""A table of LanceDB: a folder NAME.lance, at the version that is current when it is opened."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.stored.arrow_files import convert_columns, make_fields
from theodolite.sources.stored.table import Batch
from theodolite.stores.reading.extras import require

_METRICS = {"cosine": "cosine", "dot": "dot", "l2": "euclidean"}


def find_table(folder: Path, table: str | None) -> Path | None:
    """Return the folder of a table: the one given, or the named or only one in it. None if it has no tables."""
    if folder.suffix == ".lance":
        return folder
    names = sorted(path.stem for path in folder.glob("*.lance"))
    if not names:
        return None
    if table is None and len(names) == 1:
        table = names[0]
    if table not in names:
        got = "none was named" if table is None else f"got {table!r}"
        raise InputError(f"the folder has the tables {', '.join(names)} ({got}); give FOLDER#TABLE.")
    return folder / f"{table}.lance"


class LanceTable:
    """A version of a Lance dataset. Its files never change, so neither do the rows that are read."""

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self._data = require("lance", "pylance").dataset(str(path))
        self.fields = make_fields(self._data.schema, self._data.count_rows(), self._first_rows)
        self.metric = self._find_metric()

    def _first_rows(self, name: str) -> Iterator[Any]:
        return (batch.column(0) for batch in self._data.scanner(columns=[name], batch_size=64).to_batches())

    def _find_metric(self) -> str | None:
        """Return the metric of the index of vectors, if there is one."""
        os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # not needed, and Lance warns without it
        for index in self._data.describe_indices():
            for part in self._data.stats.index_stats(index.name).get("indices", []):
                if part.get("metric_type") in _METRICS:
                    return _METRICS[part["metric_type"]]
        return None

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows in the order of the dataset."""
        scanner = self._data.scanner(columns=list(names), offset=start, batch_size=rows, scan_in_order=True)
        row = start
        for batch in scanner.to_batches():
            yield convert_columns(batch, names, row)
            row += batch.num_rows

    def digest(self) -> str:
        """Return a digest of the list of data files, whose names are unique, and of deleted rows."""
        parts = "\n".join(str(fragment.metadata) for fragment in self._data.get_fragments())
        return sha256(parts.encode()).hexdigest()

    def state(self) -> Hashable:
        """Return the version that was opened."""
        return int(self._data.version)
