"""A series on disk: tables that are replaced step by step while someone trains, whole or as they were.

New tables are written into a folder beside, then series.json with their checksums, and only then are they moved to
their places: a run killed at any moment leaves what series.json tells in one place or the other. The next run
first moves the rest to its place, so that it writes over nothing that series.json tells of.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import DamagedError, InputError
from theodolite.surveys.files import checksum, read_json, verify, write_json
from theodolite.surveys.folder import write_table

FACTS = "series.json"
SCHEMA = 1
NEW = ".new"  # the folder of tables that are not in their places yet


def is_series(folder: str | Path) -> bool:
    """Say whether a folder holds a series."""
    return (Path(folder) / FACTS).is_file()


def write(folder: Path, facts: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> None:
    """Write every table and series.json, replacing those of an earlier moment of the same series."""
    folder.mkdir(parents=True, exist_ok=True)
    _settle(folder)
    files = {}
    for name, table in tables.items():
        write_table(folder / NEW / f"{name}.parquet", table)
        files[f"{name}.parquet"] = checksum(folder / NEW / f"{name}.parquet")
    write_json(folder / FACTS, {"schema": SCHEMA, "series": True, **facts, "files": files})
    for name in files:
        (folder / NEW / name).replace(folder / name)
    shutil.rmtree(folder / NEW)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return series.json and the tables it names, each checked."""
    if not is_series(folder):
        raise InputError(f"{folder} holds no series: there is no {FACTS} in it. `theodolite dynamics` makes one.")
    facts = read_json(folder / FACTS)
    if facts.get("schema") != SCHEMA:
        raise InputError(f"{folder} has schema {facts.get('schema')}; this version reads schema {SCHEMA}.")
    return facts, {
        name.removesuffix(".parquet"): _table(_standing(folder / name, expected))
        for name, expected in facts["files"].items()
    }


def _settle(folder: Path) -> None:
    """Move to their places the tables that a killed run left beside, if series.json tells of them."""
    if not (folder / NEW).is_dir() or not is_series(folder):
        return
    for name, expected in read_json(folder / FACTS).get("files", {}).items():
        if _is_beside(folder / name, expected):
            (folder / NEW / name).replace(folder / name)


def _standing(path: Path, expected: str) -> Path:
    """Return the file, or the one that a killed run did not come to move to its place."""
    if _is_beside(path, expected):
        return path.parent / NEW / path.name
    verify(path, expected)
    return path


def _is_beside(path: Path, expected: str) -> bool:
    """Say whether the file that series.json tells of lies beside its place still."""
    other = path.parent / NEW / path.name
    return other.is_file() and checksum(other) == expected


def _table(path: Path) -> pd.DataFrame:
    import pyarrow as pa

    try:
        return pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
