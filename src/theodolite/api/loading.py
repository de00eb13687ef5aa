"""theodolite.load: open any folder that a command or function has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from theodolite.storage.location import parse_location
from theodolite.stores.results import FACTS as STORE
from theodolite.stores.results import open_results
from theodolite.studies.laboratory import is_laboratory, open_laboratory
from theodolite.studies.series import Series, is_series
from theodolite.surveys.folder import open_survey


def load(folder: str | Path) -> Any:
    """Open a folder and return what it holds, verifying every file; a survey in a bucket is downloaded.

    A `Survey` of `survey`, `measure`, `watch` or `merge`; a `Series` of `dynamics` or of a training run; the
    `Findings` of a laboratory; the results of `store`. `theodolite.load` and `theodolite.open` are two names of
    this function; `load` does not hide Python's `open`.
    """
    parse_location(folder)  # rejects what is neither a path nor an address
    if is_series(Path(folder)):
        return Series.read(folder)
    if is_laboratory(folder):
        return open_laboratory(folder)
    return open_results(folder) if (Path(folder) / STORE).is_file() else open_survey(folder)
