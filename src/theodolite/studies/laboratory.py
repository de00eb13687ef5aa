"""Laboratories: studies without a survey leave a folder of their own, which exhibits read as they read surveys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from theodolite.errors import DamagedError, InputError
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.files import read_json, read_tensors, write_beside, write_json, write_tensors
from theodolite.surveys.run import versions
from theodolite.surveys.storage import on_disk

FACTS, VECTORS = "laboratory.json", "vectors.safetensors"
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Findings:
    """What a laboratory found: facts (`laboratory`, `model`, `settings`, ...), tables, and vectors kept whole."""

    facts: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    vectors: dict[str, Tensor] = field(default_factory=dict)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write laboratory.json, a .parquet a table and vectors.safetensors; return the folder."""
        laboratory = str(self.facts["laboratory"])
        path = on_disk(folder, laboratory)
        check_free(path, laboratory, overwrite=overwrite)
        path.mkdir(parents=True, exist_ok=True)
        (path / _mark(laboratory)).touch()  # a killed run leaves it, so that the next one knows the folder again
        (path / FACTS).unlink(missing_ok=True)  # a folder without it holds nothing finished
        for old in (*path.glob("*.parquet"), *path.glob(".*.part"), path / VECTORS):
            old.unlink(missing_ok=True)
        for name, table in self.tables.items():
            write_beside(path / f"{name}.parquet", partial(_write_table, table))
        if self.vectors:
            write_tensors(path / VECTORS, self.vectors, {})
        files = {each.name: _sha256(each) for each in sorted(path.iterdir()) if each.suffix in FILES}
        write_json(path / FACTS, {**self.facts, "files": files})
        (path / _mark(laboratory)).unlink()
        return path


FILES = (".parquet", ".safetensors")


def facts_of(laboratory: str, model: Mapping[str, Any] | None, **settings: Any) -> dict[str, Any]:
    """Return the facts that every laboratory tells, in the shape that exhibits know from surveys."""
    return {
        "schema": SCHEMA,
        "laboratory": laboratory,
        "model": dict(model) if model is not None else None,
        "corpus": {"name": laboratory, "documents": 0},
        "units": "none",
        "populations": ["all"],
        "layers": [],
        "settings": settings,
        "versions": versions(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def is_laboratory(folder: str | Path) -> bool:
    """Say whether a folder is one that a laboratory left."""
    return (Path(folder) / FACTS).is_file()


def open_laboratory(folder: str | Path) -> Findings:
    """Open what a laboratory left, checking every file."""
    path = Path(folder)
    if not is_laboratory(path):
        raise InputError(f"{path} is no folder of a laboratory: there is no {FACTS} in it.")
    facts = read_json(path / FACTS)
    for name, digest in facts.get("files", {}).items():
        if not (path / name).is_file():
            raise DamagedError(f"{path / name} is missing.")
        if _sha256(path / name) != digest:
            raise DamagedError(f"{path / name} is damaged: its checksum is not the one that was written.")
    tables = {
        name.removesuffix(".parquet"): pd.read_parquet(path / name) for name in facts["files"] if ".par" in name
    }
    vectors = read_tensors(path / VECTORS)[0] if VECTORS in facts["files"] else {}
    return Findings(facts, tables, vectors)


def as_surveyed(folder: str | Path) -> Surveyed:
    """Return the folder as exhibits see it: facts and tables; its vectors are read by those who need them."""
    found = open_laboratory(folder)
    return Surveyed(found.facts, found.tables, Path(folder))


def check_free(folder: Path, laboratory: str, *, overwrite: bool) -> None:
    """Refuse a folder that holds something else, or the same if it may not be replaced; unfinished, it may."""
    folder = on_disk(folder, laboratory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give the name of a folder.")
    held = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    if FACTS not in held and _mark(laboratory) in held:
        return
    if held and FACTS not in held:
        raise InputError(f"--out {folder} holds {', '.join(held[:3])} and no {laboratory}; give another folder.")
    if held and not overwrite:
        raise InputError(f"--out {folder} holds findings already; give --overwrite to replace them.")
    if held and (there := read_json(folder / FACTS).get("laboratory")) != laboratory:
        raise InputError(f"--out {folder} holds what `theodolite {there}` found; give another folder.")


def _mark(laboratory: str) -> str:
    """Return the name of the empty file that lies in a folder while the laboratory writes there."""
    return f".{laboratory}.unfinished"


def _write_table(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(path, index=False)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
