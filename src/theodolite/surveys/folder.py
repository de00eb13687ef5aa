"""The folder of a survey: written, opened and checked for damage."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.engines.gpu import Checksums
from theodolite.errors import DamagedError, InputError
from theodolite.sources.units import OPEN, Unit, Units
from theodolite.state.pilot import Pilot
from theodolite.state.state import UNSEEN, State
from theodolite.storage import download
from theodolite.storage.bucket import Bucket
from theodolite.storage.checksum import checksum
from theodolite.storage.file_names import FACTS, LAYER_NORMS, PILOT, SAMPLE, STATE, UNFINISHED
from theodolite.storage.files import read_json, verify, write_json
from theodolite.storage.location import Location, list_output_folder, parse_location, remove
from theodolite.storage.lock import LOCK
from theodolite.surveys.layer_norms import load_norms, norms_table, save_norms
from theodolite.surveys.survey import Survey
from theodolite.tables.curves import curve_table
from theodolite.tables.table_files import read_table, write_table
from theodolite.tables.tables import SurveyTables

SCHEMA = 1
REPORTED = ("layers", "tokens", "units")
LATER = ("scales", "spectra")  # missing in older surveys
TABLES = (*REPORTED, "coordinates", *LATER)
FILES = (PILOT, STATE, SAMPLE, LAYER_NORMS, *(f"{table}.parquet" for table in TABLES))
NORMS_TABLE = "layer_norms"  # the table of what the file of norms holds
SEAL = "checksum"  # of survey.json's other entries
OURS = {
    "token_sets.safetensors",
    "token_sets.parquet",
    "batches.parquet",
    *FILES,
    FACTS,
    UNFINISHED,
    "checkpoints",
    "workers",
    "figures",
    "report.html",
}


def check_free(folder: Location, *, overwrite: bool) -> list[str]:
    """Reject a folder that is in use, unless it is a survey that may be overwritten; return its file names."""
    present = [name for name in list_output_folder(folder) if name != LOCK]
    used = [name for name in present if not (name.startswith(".") and name.endswith(".part"))]
    foreign = [name for name in used if name not in OURS]
    if foreign:
        raise InputError(
            f"--out {folder} contains files that are not part of a survey ({', '.join(foreign[:4])}), which are "
            "never overwritten. Choose another folder."
        )
    if used and not overwrite:
        way = "--resume to continue it or " if UNFINISHED in present else ""
        listed = ", ".join(used[:4])
        raise InputError(
            f"--out {folder} already contains files of a survey ({listed}). Choose another folder, or use {way}"
            "--overwrite to replace it."
        )
    return present


def claim(folder: Location, *, overwrite: bool) -> None:
    """Create the folder, or delete the older survey in it if that may be overwritten.

    Large files are renamed now and deleted in the background. A run that is killed before that leaves temporary
    files, which the next run deletes.
    """
    present = check_free(folder, overwrite=overwrite)
    for name in sorted(present, key=lambda name: name != FACTS):  # first: without it nothing is complete
        if isinstance(folder, Path) and name in FILES:
            _remove_in_background(folder / name)
        else:
            remove(folder / name)
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)


def _remove_in_background(path: Path) -> None:
    former = path.replace(path.with_name(f".{path.name}.former.part"))
    threading.Thread(target=former.unlink, kwargs={"missing_ok": True}, name="removing").start()


def save(survey: Survey, folder: Location, state: Callable[[], Checksums] | None = None) -> None:
    """Write every file, survey.json last. `state` waits for the state's files, if their writing has started."""
    if isinstance(folder, Bucket):
        download.delete_local_copy(folder)
        save(survey, download.local_copy(folder))
        folder.put_all(download.local_copy(folder), [*FILES, FACTS])
        survey.folder = folder
        return
    folder.mkdir(parents=True, exist_ok=True)
    state = state or (lambda: survey.state.save(folder))
    writers: dict[str, Callable[[], None]] = {
        PILOT: lambda: survey.pilot.save(folder),
        LAYER_NORMS: lambda: save_norms(survey.norms, folder),
    }
    for name in TABLES:
        path = folder / f"{name}.parquet"
        writers[path.name] = partial(write_table, path, getattr(survey.tables, name))

    def written(name: str) -> str:
        writers[name]()
        return checksum(folder / name)

    with ThreadPoolExecutor(len(writers)) as pool:
        writing = {name: pool.submit(written, name) for name in writers}
        known = state() | {name: one.result() for name, one in writing.items()}
    survey.facts["files"] = {name: known[name] for name in FILES}
    write_json(folder / FACTS, survey.facts | {SEAL: _seal(survey.facts)})
    survey.folder = folder


def open_tables(
    folder: str | Path | Bucket, names: Sequence[str] = REPORTED
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return a survey's facts and the named tables, without reading its state.

    Besides the Parquet tables there is "layer_norms": gamma and beta by layer and coordinate.
    """
    place = parse_location(folder)
    facts = _read_facts(place)
    files = [LAYER_NORMS if name == NORMS_TABLE else f"{name}.parquet" for name in names]
    path = download.download(place, files)
    for file in files:
        _verify(path, facts, file)
    return facts, {
        name: norms_table(load_norms(path)) if name == NORMS_TABLE else read_table(path / f"{name}.parquet")
        for name in names
    }


def _verify(path: Path, facts: dict[str, Any], name: str) -> None:
    if name not in facts["files"]:
        raise InputError(f"{path} was made by an older version that did not write {name}. Survey again to get it.")
    verify(path / name, facts["files"][name])


def _read_facts(path: Location) -> dict[str, Any]:
    """Return survey.json of a finished survey that this version can read."""
    if not path.is_dir():
        raise InputError(f"{path} is not a folder. Give the folder that `theodolite survey --out` wrote.")
    if not (path / FACTS).is_file():
        if (path / UNFINISHED).is_file():
            raise InputError(f"{path} contains an unfinished survey. Run its command again with --resume.")
        raise InputError(
            f"{path} does not contain a survey: there is no {FACTS}. Give the folder that "
            "`theodolite survey --out` wrote."
        )
    facts = read_json(path / FACTS)
    seal = facts.pop(SEAL, None)
    if facts.get("schema") != SCHEMA:
        raise InputError(f"{path} has schema {facts.get('schema')}; this version reads schema {SCHEMA}.")
    if seal != _seal(facts):
        raise DamagedError(f"{path / FACTS} is damaged: its checksum is {_seal(facts)}, expected {seal}.")
    return facts


def open_survey(folder: str | Path | Bucket) -> Survey:
    """Open a finished survey, verifying every file; one in a bucket is downloaded."""
    place = parse_location(folder)
    facts = _read_facts(place)
    path = download.download(place, FILES)
    missing = {name for name in LATER if f"{name}.parquet" not in facts["files"]}
    for name in FILES:
        if name.removesuffix(".parquet") not in missing:
            _verify(path, facts, name)
    tables = SurveyTables(
        *(curve_table(name) if name in missing else read_table(path / f"{name}.parquet") for name in TABLES)
    )
    pilot = Pilot.load(path)
    settings = facts["settings"]
    frames = {
        layer["index"]: pilot.frame(
            layer["index"],
            populations=settings["populations"],
            sample_size=settings["sample_size"],
            contextuality=settings.get("contextuality", False),
        )
        for layer in facts["layers"]
    }
    # The state lists all units of an open vocabulary; for a closed one the table has those that were seen.
    kind = settings["units"]
    units = Units(kind) if kind in OPEN else _units(tables.units, kind)
    return Survey(facts, tables, State.load(path, frames, units), pilot, place, load_norms(path))


def _units(table: pd.DataFrame, kind: str) -> Units:
    """Rebuild the list of units by code; codes that were never seen get a name that no token has."""
    known = {
        int(row["row"]): Unit(
            row["unit"],
            row["text"],
            None if pd.isna(row["id"]) else int(row["id"]),
            bool(row["special"]),
            float(row["tokens_per_unit"]),
        )
        for row in table.to_dict("records")
    }
    size = max(known, default=-1) + 1
    return Units(kind, [known.get(code, Unit(f"{UNSEEN}{code}", "")) for code in range(size)])


def _seal(facts: dict[str, Any]) -> str:
    """Return a CRC-32 of the facts, which survey.json itself contains."""
    rest = {name: value for name, value in facts.items() if name != SEAL}
    return f"crc32:{zlib.crc32(json.dumps(rest, sort_keys=True).encode()):08x}"
