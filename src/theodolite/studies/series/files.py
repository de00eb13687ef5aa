"""The files of a series, replaced atomically at every step.

New tables are written to a subfolder, then series.json with their checksums; then the tables are moved to their
final places. If a run is killed at any moment, every table named in series.json is complete in one place or the
other. The next run first finishes the moves, so it never overwrites a table named in series.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import DamagedError, InputError
from theodolite.storage.checksum import checksum
from theodolite.storage.files import read_json, verify, write_json
from theodolite.tables.table_files import write_table

FACTS = "series.json"
SCHEMA = 1
PENDING = ".new"  # folder of tables that are not yet moved to their final places


def is_series(folder: str | Path) -> bool:
    """Return whether a folder contains a series."""
    return (Path(folder) / FACTS).is_file()


def write(folder: Path, facts: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> None:
    """Write every table and series.json, replacing an earlier version of the same series."""
    folder.mkdir(parents=True, exist_ok=True)
    _finish_moves(folder)
    files = {}
    for name, table in tables.items():
        write_table(folder / PENDING / f"{name}.parquet", table)
        files[f"{name}.parquet"] = checksum(folder / PENDING / f"{name}.parquet")
    write_json(folder / FACTS, {"schema": SCHEMA, "series": True, **facts, "files": files})
    for name in files:
        (folder / PENDING / name).replace(folder / name)
    shutil.rmtree(folder / PENDING)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return series.json and the tables it names, verifying their checksums."""
    if not is_series(folder):
        raise InputError(
            f"{folder} does not contain a series: {FACTS} is missing. `theodolite dynamics` creates one."
        )
    facts = read_json(folder / FACTS)
    if facts.get("schema") != SCHEMA:
        raise InputError(f"{folder} has schema {facts.get('schema')}; this version reads schema {SCHEMA}.")
    return facts, {
        name.removesuffix(".parquet"): _read_table(_locate(folder / name, expected))
        for name, expected in facts["files"].items()
    }


def _finish_moves(folder: Path) -> None:
    """Move the tables named in series.json that a killed run left in the subfolder to their final places."""
    if not (folder / PENDING).is_dir() or not is_series(folder):
        return
    for name, expected in read_json(folder / FACTS).get("files", {}).items():
        if _is_pending(folder / name, expected):
            (folder / PENDING / name).replace(folder / name)


def _locate(path: Path, expected: str) -> Path:
    """Return the path of the file, which is still in the subfolder if a run was killed before moving it."""
    if _is_pending(path, expected):
        return path.parent / PENDING / path.name
    verify(path, expected)
    return path


def _is_pending(path: Path, expected: str) -> bool:
    """Return whether the file named in series.json is still in the subfolder."""
    pending = path.parent / PENDING / path.name
    return pending.is_file() and checksum(pending) == expected


def _read_table(path: Path) -> pd.DataFrame:
    import pyarrow as pa

    try:
        return pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
