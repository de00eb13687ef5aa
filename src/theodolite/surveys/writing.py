"""Writing: the state, gigabytes that no table depends on, goes to the disk while the tables are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from theodolite.surveys.state import State
from theodolite.surveys.storage import Place

Checksums = dict[str, str]


@contextmanager
def begun(state: State, folder: Place | None) -> Iterator[Callable[[], Checksums] | None]:
    """Begin to write the state into the folder; give what waits for its files and returns their checksums.

    Nothing is begun without a folder on disk. A file that is not yet whole has no name; survey.json, without which
    no folder counts as a survey, is written by `save` when these are done.
    """
    if not isinstance(folder, Path):
        yield None
        return
    with ThreadPoolExecutor(1, "writing") as pool:
        writing = pool.submit(state.save, folder)
        yield writing.result
