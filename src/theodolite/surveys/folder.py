"""The folder that a survey leaves: written whole, opened again, checked for damage."""

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

from theodolite.errors import DamagedError, InputError
from theodolite.measures.formula import formula_of_column
from theodolite.sources.units import OPEN, Unit, Units, encodable
from theodolite.surveys import fetching, layer_norms
from theodolite.surveys import pilot as pilots
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.curves import curves
from theodolite.surveys.files import checksum, read_json, verify, write_beside, write_json
from theodolite.surveys.layer_norms import load_norms, norms_table, save_norms
from theodolite.surveys.lease import LOCK
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.state import SAMPLE, STATE, State
from theodolite.surveys.storage import Place, placed, remove
from theodolite.surveys.survey import Survey
from theodolite.surveys.tables import Tables
from theodolite.surveys.writing import Checksums

SCHEMA = 1
FACTS, UNFINISHED = fetching.FACTS, "unfinished.json"
REPORTED = ("layers", "tokens", "units")
LATER = ("scales", "spectra")  # a survey made before these were is read without
TABLES = (*REPORTED, "coordinates", *LATER)
FILES = (pilots.FILE, STATE, SAMPLE, layer_norms.FILE, *(f"{table}.parquet" for table in TABLES))
LAYER_NORMS = "layer_norms"  # the table of what that file holds
SEAL = "checksum"  # of survey.json's other entries
UNSEEN = "\0unseen "  # no tokenizer spells a token so
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


def check_free(folder: Place, *, overwrite: bool) -> list[str]:
    """Refuse a folder in use, unless what is in it is a survey that may be overwritten; return what is in it."""
    if folder.is_file():
        raise InputError(f"--out {folder} is a file; give the name of a folder.")
    there = folder.iterdir() if folder.is_dir() else []
    present = sorted(path.name for path in there if path.name != LOCK)
    used = [name for name in present if not (name.startswith(".") and name.endswith(".part"))]
    foreign = [name for name in used if name not in OURS]
    if foreign:
        raise InputError(
            f"--out {folder} holds files that no survey made ({', '.join(foreign[:4])}), which nothing here will "
            "overwrite; choose another folder."
        )
    if used and not overwrite:
        way = "--resume to go on with it, " if UNFINISHED in present else ""
        raise InputError(f"--out {folder} is in use ({', '.join(used[:4])}): {way}--overwrite to replace it.")
    return present


def claim(folder: Place, *, overwrite: bool) -> None:
    """Make the folder, emptied of an older survey if that may be overwritten.

    Its large files lose their names now and their space while work goes on: a run that is killed before leaves
    parts, which count as nothing and the next run removes.
    """
    present = check_free(folder, overwrite=overwrite)
    for name in sorted(present, key=lambda name: name != FACTS):  # that first: without it no folder looks whole
        if isinstance(folder, Path) and name in FILES:
            _remove_meanwhile(folder / name)
        else:
            remove(folder / name)
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)


def _remove_meanwhile(path: Path) -> None:
    former = path.replace(path.with_name(f".{path.name}.former.part"))
    threading.Thread(target=former.unlink, kwargs={"missing_ok": True}, name="removing").start()


def save(survey: Survey, folder: Place, state: Callable[[], Checksums] | None = None) -> None:
    """Write every file, survey.json last: a folder with it is whole. `state` waits for its files, if begun."""
    if isinstance(folder, Bucket):
        fetching.forget_copy(folder)
        save(survey, fetching.copy_of(folder))
        folder.put_all(fetching.copy_of(folder), [*FILES, FACTS])
        survey.folder = folder
        return
    folder.mkdir(parents=True, exist_ok=True)
    state = state or (lambda: survey.state.save(folder))
    writers: dict[str, Callable[[], None]] = {
        pilots.FILE: lambda: survey.pilot.save(folder),
        layer_norms.FILE: lambda: save_norms(survey.norms, folder),
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


def write_table(path: Path, table: pd.DataFrame, told: dict[str, str] | None = None) -> None:
    """Write Parquet in which every measured column names its formula; `told` goes into the file's own metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = formula_of_column(path.stem)
    arrow = pa.Table.from_pandas(_encodable(table), preserve_index=False)
    fields = [
        field.with_metadata({"formula": ids[field.name]}) if field.name in ids else field for field in arrow.schema
    ]
    arrow = arrow.cast(pa.schema(fields, metadata=(arrow.schema.metadata or {}) | _bytes(told or {})))
    repeated = [field.name for field in fields if not pa.types.is_floating(field.type)]  # not so measured numbers

    def write(beside: Path) -> None:
        pq.write_table(arrow, beside, compression="zstd", use_dictionary=repeated, write_page_checksum=bool(told))

    write_beside(path, write)


def _bytes(told: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in told.items()}


def open_tables(
    folder: str | Path | Bucket, names: Sequence[str] = REPORTED
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return a survey's facts and the tables named, without reading its state.

    Beside the Parquet tables there is "layer_norms": gamma and beta by layer and coordinate.
    """
    place = placed(folder)
    facts = _read_facts(place)
    files = [layer_norms.FILE if name == LAYER_NORMS else f"{name}.parquet" for name in names]
    path = fetching.fetched(place, files)
    for file in files:
        _verify(path, facts, file)
    return facts, {
        name: norms_table(load_norms(path)) if name == LAYER_NORMS else _read_table(path / f"{name}.parquet")
        for name in names
    }


def _verify(path: Path, facts: dict[str, Any], name: str) -> None:
    if name not in facts["files"]:
        raise InputError(f"{path} was made before surveys had {name}; survey again to have it.")
    verify(path / name, facts["files"][name])


def _read_facts(path: Place) -> dict[str, Any]:
    """Return survey.json of a finished survey that this version can read."""
    if not path.is_dir():
        raise InputError(f"{path} is no folder; give the folder that `theodolite survey --out` made.")
    if not (path / FACTS).is_file():
        if (path / UNFINISHED).is_file():
            raise InputError(f"{path} holds an unfinished survey; run its command again with --resume.")
        raise InputError(f"{path} holds no survey: there is no {FACTS} in it.")
    facts = read_json(path / FACTS)
    seal = facts.pop(SEAL, None)
    if facts.get("schema") != SCHEMA:
        raise InputError(f"{path} has schema {facts.get('schema')}; this version reads schema {SCHEMA}.")
    if seal != _seal(facts):
        raise DamagedError(f"{path / FACTS} is damaged: its checksum is {_seal(facts)}, {seal} was written.")
    return facts


def open_survey(folder: str | Path | Bucket) -> Survey:
    """Open the folder of a finished survey, checking every file; one in a bucket is fetched to disk."""
    place = placed(folder)
    facts = _read_facts(place)
    path = fetching.fetched(place, FILES)
    missing = {name for name in LATER if f"{name}.parquet" not in facts["files"]}
    for name in FILES:
        if name.removesuffix(".parquet") not in missing:
            _verify(path, facts, name)
    tables = Tables(
        *(curves(name) if name in missing else _read_table(path / f"{name}.parquet") for name in TABLES)
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
    # An open vocabulary is listed whole in the state; of a closed one the table has what was seen.
    kind = settings["units"]
    units = Units(kind) if kind in OPEN else _units(tables.units, kind)
    return Survey(facts, tables, State.load(path, frames, units), pilot, place, load_norms(path))


def _units(table: pd.DataFrame, kind: str) -> Units:
    """Rebuild the numbered list; codes that were never seen get a name that cannot be met."""
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
    """Return a CRC-32 of the facts, which survey.json carries itself: nothing else could check it."""
    rest = {name: value for name, value in facts.items() if name != SEAL}
    return f"crc32:{zlib.crc32(json.dumps(rest, sort_keys=True).encode()):08x}"


def is_unseen(unit: Unit) -> bool:
    """Say whether a unit only fills the place of a code that was never met."""
    return unit.key.startswith(UNSEEN)


def _read_table(path: Path) -> pd.DataFrame:
    import pyarrow as pa

    try:
        return pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def _encodable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with lone surrogates, which Parquet cannot hold, written as \\udcXX."""
    fixed = table.copy(deep=False)
    for column in ("unit", "text"):
        if column in fixed and getattr(fixed[column].dtype, "storage", None) != "pyarrow":  # that holds none
            values = fixed[column].tolist()  # each many times: a unit has a row in every layer and population
            written = {value: encodable(str(value)) for value in set(values)}
            fixed[column] = [written[value] for value in values]
    return fixed
