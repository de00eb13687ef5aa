"""The folder of a survey: written, opened and checked for damage."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.corpora.fields import FieldChoice
from theodolite.engines.gpu import Checksums
from theodolite.errors import DamagedError, InputError
from theodolite.models.layers import Layer
from theodolite.sources.units import OPEN, Unit, Units
from theodolite.state.pilot import Pilot
from theodolite.state.state import UNSEEN, State
from theodolite.storage import download
from theodolite.storage.bucket import Bucket
from theodolite.storage.checksum import checksum
from theodolite.storage.file_names import (
    FACTS,
    LAYER_NORMS,
    PILOT,
    REPLACEMENT,
    SAMPLE,
    STATE,
    TOKENS,
    UNFINISHED,
    UNITS,
)
from theodolite.storage.files import read_json, verify, write_json
from theodolite.storage.location import Location, list_output_folder, move, parse_location, remove
from theodolite.storage.lock import LOCK, find_writer
from theodolite.surveys.by_field import BY
from theodolite.surveys.layer_norms import load_norms, norms_table, save_norms
from theodolite.surveys.options import TEXT_UNITS
from theodolite.surveys.survey import OTHER_UNITS, Survey
from theodolite.tables.table_files import read_table, write_table
from theodolite.tables.tables import SurveyTables, empty_table

SCHEMA = 1
SUMS_KEPT = "sums_kept"  # in survey.json: whether state.safetensors has the sums; missing in older surveys
MAX_SUMS = 2**30
"""Bytes above which a finished survey keeps its sums only if asked to."""
REPORTED = ("layers", "tokens", "units")
CURVES = ("scales", "spectra")
BY_FIELD = ("groups", "group_differences")  # missing if documents are not grouped by a field
LATER = (*CURVES, "jackknife", "neighbours", "contexts")  # missing in older surveys
ATTENTION = "attention"  # a table of surveys that were made with --attention
OPTIONAL = (*BY_FIELD, ATTENTION)
TABLES = (*REPORTED, "coordinates", *LATER)
FILES = (PILOT, STATE, SAMPLE, LAYER_NORMS, *(f"{table}.parquet" for table in TABLES))
EVERY_FILE = (*FILES, *(f"{table}.parquet" for table in OPTIONAL))
NORMS_TABLE = "layer_norms"  # the table of what the file of norms holds
SEAL = "checksum"  # of survey.json's other entries
OURS = {
    "token_sets.safetensors",
    "token_sets.parquet",
    "batches.parquet",
    *EVERY_FILE,
    FACTS,
    UNFINISHED,
    REPLACEMENT,
    "checkpoints",
    "workers",
    UNITS,
    "figures",
    "report.html",
}


def check_free(folder: Location, *, overwrite: bool) -> list[str]:
    """Reject a folder that is in use, unless it is a survey that may be overwritten; return its file names."""
    present = [name for name in list_output_folder(folder) if name != LOCK]
    used = [name for name in present if not (name.startswith(".") and name.endswith(".part"))]
    foreign = [name for name in used if name not in OURS]
    foreign += [f"{UNITS}/{name}" for name in list_output_folder(folder / UNITS) if name not in TEXT_UNITS]
    if foreign:
        raise InputError(
            f"--out {folder} contains files that are not part of a survey ({', '.join(foreign[:4])}), which are "
            "never overwritten. Choose another folder."
        )
    if used and not overwrite:
        way = "--resume to continue it or " if {UNFINISHED, REPLACEMENT} & set(present) else ""
        held = "a survey" if FACTS in used else "an unfinished survey"
        raise InputError(
            f"--out {folder} already contains {held}. Give another folder, or use {way}--overwrite to replace it."
        )
    return present


def claim(folder: Location, *, overwrite: bool) -> Location:
    """Return an empty folder for a new survey: the folder itself, or one in it if it contains a finished survey.

    That survey stays until the new one is complete and `finish_replacement` is called. An unfinished one is
    deleted.
    """
    present = check_free(folder, overwrite=overwrite)
    place = folder / REPLACEMENT if FACTS in present else folder
    for old in [place] if FACTS in present else [folder / name for name in present]:
        remove(old, missing_ok=True)
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
    return place


def finish_replacement(folder: Location) -> None:
    """Replace the survey in a folder by a complete one that was written to `claim`'s folder, if there is one.

    If this is interrupted, the next run continues: survey.json is the first file to go and the last to come.
    """
    _replace(folder, folder / REPLACEMENT)


def _replace(folder: Location, new: Location) -> None:
    if not (new / FACTS).is_file():
        return
    (folder / FACTS).unlink(missing_ok=True)
    for name in OURS.difference(EVERY_FILE, {FACTS, REPLACEMENT, UNITS}):
        remove(folder / name, missing_ok=True)
    kinds = read_json(new / FACTS).get(OTHER_UNITS, [])
    for kind in TEXT_UNITS:
        if kind in kinds:
            _replace(folder / UNITS / kind, new / UNITS / kind)
        else:
            remove(folder / UNITS / kind, missing_ok=True)
    if not kinds:
        remove(folder / UNITS, missing_ok=True)
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    files = read_json(new / FACTS)["files"]
    for name in (*EVERY_FILE, FACTS):
        if (new / name).is_file():
            move(new / name, folder / name)
        elif name not in files:  # the others were moved before the run was killed
            remove(folder / name, missing_ok=True)
    remove(new, missing_ok=True)


def write(survey: Survey, folder: Location, *, overwrite: bool) -> None:
    """Write a survey that is complete in memory, and replace an older one."""
    kinds = {kind: survey.by(kind) for kind in survey.facts.get(OTHER_UNITS, [])}
    place = claim(folder, overwrite=overwrite)
    for kind, other in kinds.items():
        save(other, place / UNITS / kind)
    save(survey, place)
    finish_replacement(folder)
    survey.folder = folder
    for kind, other in kinds.items():
        other.folder = folder / UNITS / kind


def save(
    survey: Survey,
    folder: Location,
    state: Callable[[], Checksums] | None = None,
    tokens: Callable[[], None] | None = None,
) -> None:
    """Write every file, survey.json last.

    `state` and `tokens` wait for the files of the state and for tokens.parquet, if their writing has started.
    """
    if isinstance(folder, Bucket):
        download.delete_local_copy(folder)
        save(survey, download.local_copy(folder))
        folder.put_all(download.local_copy(folder), [*survey.facts["files"], FACTS])
        survey.folder = folder
        return
    folder.mkdir(parents=True, exist_ok=True)
    state = state or (lambda: survey.state.save(folder, sums_kept=survey.facts.get(SUMS_KEPT, True)))
    writers: dict[str, Callable[[], None]] = {
        PILOT: lambda: survey.pilot.save(folder),
        LAYER_NORMS: lambda: save_norms(survey.norms, folder),
    }
    for name in _tables_of(survey):
        path = folder / f"{name}.parquet"
        writers[path.name] = partial(write_table, path, getattr(survey.tables, name))
    if tokens is not None:
        writers[TOKENS] = tokens

    def written(name: str) -> str:
        writers[name]()
        return checksum(folder / name)

    with ThreadPoolExecutor(len(writers)) as pool:
        writing = {name: pool.submit(written, name) for name in writers}
        known = state() | {name: one.result() for name, one in writing.items()}
    survey.facts["files"] = {name: known[name] for name in EVERY_FILE if name in known}
    write_json(folder / FACTS, survey.facts | {SEAL: _seal(survey.facts)})
    survey.folder = folder


def open_tables(
    folder: str | Path | Bucket,
    names: Sequence[str] = REPORTED,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return a survey's facts and the named tables, without reading its state.

    Of a table in `columns` only these columns are read, and texts are categories. Besides the Parquet tables there
    is "layer_norms": gamma and beta by layer and coordinate.
    """
    place = parse_location(folder)
    facts = _read_facts(place)
    files = [LAYER_NORMS if name == NORMS_TABLE else f"{name}.parquet" for name in names]
    path = download.download(place, files)
    for file in files:
        _verify(path, facts, file)
    return facts, {
        name: norms_table(load_norms(path))
        if name == NORMS_TABLE
        else read_table(path / f"{name}.parquet", (columns or {}).get(name))
        for name in names
    }


def _verify(path: Path, facts: dict[str, Any], name: str) -> None:
    if name not in facts["files"] and name in [f"{table}.parquet" for table in BY_FIELD]:
        raise InputError(f"{path} has no {name}: the survey was made without --by. Survey again with --by FIELD.")
    if name not in facts["files"]:
        raise InputError(f"{path} was made by an older version that did not write {name}. Survey again to get it.")
    verify(path / name, facts["files"][name])


def _read_facts(path: Location) -> dict[str, Any]:
    """Return survey.json of a finished survey that this version can read."""
    if not (path / FACTS).is_file() and (writer := find_writer(path)) is not None:
        killed = ", or if it was killed, run its command again with --resume" if isinstance(path, Bucket) else ""
        raise InputError(f"{path} is an unfinished survey: {writer} is writing it. Wait for it{killed}.")
    if not path.is_dir():
        raise InputError(f"{path} is not a folder. Give the folder that `theodolite survey --out` wrote.")
    if not (path / FACTS).is_file():
        if (path / UNFINISHED).is_file():
            raise InputError(f"{path} contains an unfinished survey. Run its command again with --resume.")
        if (path / REPLACEMENT).is_dir():
            raise InputError(
                f"{path} contains a survey that was being replaced when the run was stopped. The new one is "
                "complete: run its command again with --resume to finish."
            )
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


def _tables_of(survey: Survey) -> list[str]:
    """Return the tables that a survey writes; those of options that were not given have no rows."""
    groups = BY_FIELD if BY in survey.facts else ()
    return [*TABLES, *groups, *([ATTENTION] if len(survey.tables.attention) else [])]


def open_survey(folder: str | Path | Bucket) -> Survey:
    """Open a finished survey, verifying every file; one in a bucket is downloaded."""
    place = parse_location(folder)
    facts = _read_facts(place)
    path = download.download(place, [name for name in EVERY_FILE if name in facts["files"]])
    missing = {name for name in (*LATER, *OPTIONAL) if f"{name}.parquet" not in facts["files"]}
    for name in EVERY_FILE:
        if name.removesuffix(".parquet") not in missing:
            _verify(path, facts, name)
    tables = SurveyTables(
        *(
            empty_table(name) if name in missing else read_table(path / f"{name}.parquet")
            for name in (*TABLES, *OPTIONAL)
        )
    )
    pilot = Pilot.load(path)
    settings = facts["settings"]
    by = FieldChoice.from_dict(facts[BY]) if BY in facts else None
    frames = {
        layer["index"]: pilot.frame(
            Layer(**layer),
            populations=settings["populations"],
            sample_size=settings["sample_size"],
            contextuality=settings.get("contextuality", False),
            by=by,
            layer_scores=settings.get("layer_scores", False),
        )
        for layer in facts["layers"]
    }
    # The state lists all units of an open vocabulary; for a closed one the table has those that were seen.
    kind = settings["units"]
    units = Units(kind) if kind in OPEN else _units(tables.units, kind)
    return Survey(facts, tables, State.load(path, frames, units), pilot, place, load_norms(path))


def require_sums(survey: Survey, command: str) -> None:
    """Raise if the survey was opened from a folder without sums."""
    if survey.folder is not None and not survey.facts.get(SUMS_KEPT, True) and not survey.state.has_sums:
        raise InputError(
            f"{survey.folder} has no sums, which {command} requires: they were larger than "
            f"{MAX_SUMS // 2**30} GiB. Survey again with --keep-sums."
        )


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
