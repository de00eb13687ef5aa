"""Laboratories: studies that do not need a survey. Their result folders are read by exhibits as surveys are."""

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

from theodolite.environment import versions
from theodolite.errors import DamagedError, InputError
from theodolite.storage.atomic import write_atomically
from theodolite.storage.files import read_json, read_tensors, write_json, write_tensors
from theodolite.storage.location import list_output_folder, local_path
from theodolite.studies.survey_data import SurveyData
from theodolite.tables.display import Display, figures
from theodolite.text import short_path

FACTS_FILE, VECTORS_FILE = "laboratory.json", "vectors.safetensors"
CHECKED_SUFFIXES = (".parquet", ".safetensors")
SCHEMA = 1


@dataclass(frozen=True, eq=False, repr=False)
class Findings(Display):
    """The results of a laboratory: facts (`laboratory`, `model`, `settings`, ...), tables and vectors."""

    facts: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    vectors: dict[str, Tensor] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A short name: the label, or the laboratory and its model."""
        if self.facts.get("label"):
            return str(self.facts["label"])
        model = self.facts["model"]
        return (
            f"{self.facts['laboratory']} of {short_path(str(model['name']), 2)}"
            if model
            else self.facts["laboratory"]
        )

    def plot(self, name: str | None = None, **options: Any) -> Any:
        """Return an exhibit of the laboratory, by default the first it has; see `theodolite.exhibit`."""
        return figures().plot_laboratory(self, name, **options)

    def summary(self) -> pd.DataFrame:
        """Return the tables: name, number of rows, and columns."""
        rows = [(name, len(table), ", ".join(map(str, table.columns))) for name, table in self.tables.items()]
        return pd.DataFrame(rows, columns=["table", "rows", "columns"])

    def _chart(self) -> Any:
        try:
            return self.plot(caption=False)
        except InputError:  # no exhibit can be drawn from it
            return None

    def __repr__(self) -> str:
        return f"Findings({self.name!r}: {', '.join(self.tables)})"

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write laboratory.json, one .parquet file per table and vectors.safetensors; return the folder."""
        laboratory = str(self.facts["laboratory"])
        path = local_path(folder, laboratory)
        check_laboratory_folder(path, laboratory, overwrite=overwrite)
        marker = begin_laboratory(path, laboratory)
        (path / FACTS_FILE).unlink(missing_ok=True)  # a folder without it is unfinished
        for old in (*path.glob("*.parquet"), *path.glob(".*.part"), path / VECTORS_FILE):
            old.unlink(missing_ok=True)
        for name, table in self.tables.items():
            write_atomically(path / f"{name}.parquet", partial(_write_table, table))
        if self.vectors:
            write_tensors(path / VECTORS_FILE, self.vectors, {})
        files = {each.name: _sha256(each) for each in sorted(path.iterdir()) if each.suffix in CHECKED_SUFFIXES}
        write_json(path / FACTS_FILE, {**self.facts, "files": files})
        marker.unlink()
        return path

    def save_if_asked(self, out: str | Path | None, *, overwrite: bool) -> Findings:
        """Write the folder, unless `out` is None; return the findings."""
        if out is not None:
            self.save(out, overwrite=overwrite)
        return self


def make_facts(laboratory: str, model: Mapping[str, Any] | None, **settings: Any) -> dict[str, Any]:
    """Return the facts common to all laboratories, with the same keys as survey.json."""
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
    """Return whether a folder contains the results of a laboratory."""
    return (Path(folder) / FACTS_FILE).is_file()


def open_laboratory(folder: str | Path) -> Findings:
    """Open the results of a laboratory, verifying the checksum of every file."""
    path = Path(folder)
    if not is_laboratory(path):
        raise InputError(f"{path} does not contain the results of a laboratory: {FACTS_FILE} is missing.")
    facts = read_json(path / FACTS_FILE)
    for name, digest in facts.get("files", {}).items():
        if not (path / name).is_file():
            raise DamagedError(f"{path / name} is missing.")
        if _sha256(path / name) != digest:
            raise DamagedError(f"{path / name} is damaged: its checksum differs from the one in {FACTS_FILE}.")
    tables = {
        name.removesuffix(".parquet"): pd.read_parquet(path / name) for name in facts["files"] if ".par" in name
    }
    vectors = read_tensors(path / VECTORS_FILE)[0] if VECTORS_FILE in facts["files"] else {}
    return Findings(facts, tables, vectors)


def read_laboratory(folder: str | Path) -> SurveyData:
    """Return the facts and tables of a laboratory as exhibits read them, without its vectors."""
    found = open_laboratory(folder)
    return SurveyData(found.facts, found.tables, Path(folder))


def check_laboratory_folder(out: str | Path | None, laboratory: str, *, overwrite: bool) -> None:
    """Reject a folder with other contents; without `overwrite`, also one with finished results."""
    if out is None:
        return
    folder = local_path(out, laboratory)
    held = list_output_folder(folder)
    if FACTS_FILE not in held and _unfinished_marker(laboratory) in held:
        return
    if held and FACTS_FILE not in held:
        raise InputError(
            f"--out {folder} contains {', '.join(held[:3])} and no results of `theodolite {laboratory}`; "
            "give another folder."
        )
    if held and not overwrite:
        raise InputError(f"--out {folder} already contains results; give --overwrite to replace them.")
    if held and (other := read_json(folder / FACTS_FILE).get("laboratory")) != laboratory:
        raise InputError(f"--out {folder} contains results of `theodolite {other}`; give another folder.")


def begin_laboratory(folder: Path, laboratory: str) -> Path:
    """Make the folder and mark it as unfinished; return the mark.

    It stays behind if the run is killed, so that the next run may reuse the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / _unfinished_marker(laboratory)
    marker.touch()
    return marker


def _unfinished_marker(laboratory: str) -> str:
    """Return the name of the empty file that marks a folder while the laboratory writes to it."""
    return f".{laboratory}.unfinished"


def _write_table(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(path, index=False)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
