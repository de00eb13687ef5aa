"""Writing: the state, gigabytes that no table depends on, comes to the disk while the tables are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from theodolite.surveys.state import State
from theodolite.surveys.storage import Place

Checksums = dict[str, str]

TOGETHER = 8
"""Sums brought from a device at a time: one thread does not fill the way."""


@contextmanager
def begun(state: State, folder: Place | None) -> Iterator[Callable[[], Checksums] | None]:
    """Begin to write the state into the folder; give what waits for its files and returns their checksums.

    Nothing is written without a folder on disk. A file that is not yet whole has no name; survey.json, without
    which no folder counts as a survey, is written by `save` when these are done. Sums that are away on a device
    are brought here meanwhile, in the order in which they are written; at the end all are here.
    """
    with ThreadPoolExecutor(TOGETHER, "bringing") as bringing, ThreadPoolExecutor(1, "writing") as pool:
        coming = [bringing.submit(away.here) for away in state.away()]
        writing = pool.submit(state.save, folder) if isinstance(folder, Path) else None
        yield None if writing is None else writing.result
        for one in coming:
            one.result()
