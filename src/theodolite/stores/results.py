"""The results of a store, and the folder in which they are kept: store.json, Parquet tables, sums.safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from theodolite.errors import DamagedError, InputError
from theodolite.storage.checksum import checksum
from theodolite.storage.files import read_json, read_tensors, verify, write_json, write_tensors
from theodolite.storage.location import list_output_folder
from theodolite.stores.answer import Answer, Section
from theodolite.tables.table_files import read_table, write_table

FACTS, SUMS, REPORT, CHECKPOINT = "store.json", "sums.safetensors", "report.html", "checkpoint"
PARTS = tuple(f"{CHECKPOINT}-{part}.safetensors" for part in ("scan", "search", "cost"))
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class StoreResults:
    """What `theodolite.store` found.

    facts     the store, the settings, versions
    sections  answers, tables and facts by topic
    sums      the scan of the store, which `theodolite.stores.scan.Scan.from_state` restores
    folder    where they were written; None if they were not
    """

    facts: dict[str, Any]
    sections: list[Section]
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def name(self) -> str:
        """The store as the user gave it."""
        return str(self.facts["store"]["name"])

    @property
    def answers(self) -> pd.DataFrame:
        """One row per question: verdict, sentence, value, interval, reason and advice."""
        rows = [{"section": each.name, **asdict(answer)} for each in self.sections for answer in each.answers]
        return pd.DataFrame(rows)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by name."""
        return {name: table for section in self.sections for name, table in section.tables.items()}

    def __getitem__(self, name: str) -> Section:
        """Return a section by name."""
        found = {section.name: section for section in self.sections}
        if name not in found:
            raise InputError(f"There is no section {name!r}; the sections are {', '.join(found)}.")
        return found[name]

    def __repr__(self) -> str:
        """Return the answers in one line each."""
        store = self.facts["store"]
        head = f"StoreResults({self.name!r}: {store['rows']:,} rows, {store['dim']:,} coordinates)"
        lines = [f"  {each.verdict:<9}  {each.sentence}" for section in self.sections for each in section.answers]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        """Return the answers as a notebook shows them."""
        return str(self.answers[["verdict", "question", "sentence"]].to_html(index=False))

    def save(self, folder: Path) -> None:
        """Write the folder; store.json, which has the checksums of the other files, is written last."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FACTS).unlink(missing_ok=True)
        for old in folder.glob("*.parquet"):
            old.unlink()
        files = {}
        for name, table in self.tables.items():
            write_table(folder / f"{name}.parquet", table)
            files[f"{name}.parquet"] = checksum(folder / f"{name}.parquet")
        if self.sums:
            files[SUMS] = write_tensors(folder / SUMS, self.sums, {})
        write_json(folder / FACTS, {**self.facts, "sections": _plain(self._sections()), "files": files})
        for part in PARTS:
            (folder / part).unlink(missing_ok=True)

    def _sections(self) -> list[dict[str, Any]]:
        return [
            {
                "name": section.name,
                "answers": [asdict(answer) for answer in section.answers],
                "facts": section.facts,
                "tables": list(section.tables),
            }
            for section in self.sections
        ]


def open_results(folder: str | Path) -> StoreResults:
    """Open the results of `theodolite store` again, verifying the checksum of every file."""
    path = Path(folder)
    if not (path / FACTS).is_file():
        raise InputError(f"{path} does not contain results of `theodolite store`: {FACTS} is missing.")
    facts = read_json(path / FACTS)
    for name, expected in facts["files"].items():
        verify(path / name, expected)
    try:
        sections = [
            Section(
                one["name"],
                [Answer(**answer) for answer in one["answers"]],
                {name: read_table(path / f"{name}.parquet") for name in one["tables"]},
                one["facts"],
            )
            for one in facts.pop("sections")
        ]
    except (KeyError, TypeError) as error:
        raise DamagedError(f"{path / FACTS} is damaged: {error}") from error
    sums = read_tensors(path / SUMS)[0] if SUMS in facts["files"] else {}
    return StoreResults(facts, sections, sums, path)


def check_folder(folder: Path, *, overwrite: bool, resume: bool) -> None:
    """Reject a folder with other files, and one with results unless they may be replaced."""
    held = [name for name in list_output_folder(folder) if not name.endswith(".part")]
    ours = {FACTS, SUMS, REPORT, *PARTS}
    foreign = [name for name in held if name not in ours and not name.endswith(".parquet")]
    if foreign or (held and not ours & set(held)):
        raise InputError(
            f"--out {folder} contains files that are not results of `theodolite store` "
            f"({', '.join((foreign or held)[:4])}), which are never overwritten. Choose another folder."
        )
    if FACTS in held and not overwrite:
        raise InputError(f"--out {folder} already contains results; give --overwrite to replace them.")
    if held and FACTS not in held and not (overwrite or resume):
        raise InputError(
            f"--out {folder} contains an unfinished run; give --resume to continue it or --overwrite to "
            "start again."
        )


def _plain(value: Any) -> Any:
    """Return facts as JSON has them: numbers of NumPy become plain, NaN becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
