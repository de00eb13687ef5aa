"""An exhibit on disk: the format by the file's ending, written beside its name and moved into place."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.sheet import compose
from theodolite.exhibits.style import RC
from theodolite.exhibits.text import looks_numeric

PICTURES = ("png", "svg", "pdf")
TABLES = ("csv", "md", "json", *PICTURES)


def check_ending(found: Exhibit, out: Path) -> str:
    """Return the format that a file's ending asks for; refuse one that this exhibit has not."""
    ending = out.suffix.lower().removeprefix(".")
    known = PICTURES if found.kind == "figure" else TABLES
    if ending in known:
        return ending
    more = "; --data FILE.csv writes the numbers drawn" if ending in TABLES else ""
    raise InputError(
        f"--out {out}: {found.name} is a {found.kind}, so the ending is one of {', '.join(known)}{more}."
    )


def check_data(out: Path) -> None:
    """Refuse a file for the numbers drawn that is no .csv."""
    if out.suffix.lower() != ".csv":
        raise InputError(f"--data {out}: wanted a name that ends in .csv.")


def save(found: Exhibit, plate: Plate, out: Path) -> None:
    """Write a plate in the format that the file's ending names."""
    ending = check_ending(found, out)
    if ending in PICTURES:
        write_beside(out, lambda path: _picture(plate, path, ending))
    elif ending == "csv":
        save_data(plate.data, out)
    else:
        text = markdown(plate) if ending == "md" else as_json(found, plate)
        write_beside(out, lambda path: _text(path, text))


def save_data(data: pd.DataFrame, out: Path) -> None:
    """Write what an exhibit draws as CSV."""
    write_beside(out, lambda path: _text(path, data.to_csv(index=False)))


def markdown(plate: Plate) -> str:
    """Return a table as Markdown, its caption below if it has one."""
    shown = plate.data if plate.shown is None else plate.shown
    rows = [[_cell(value) for value in row] for row in [list(shown.columns), *shown.to_numpy(object).tolist()]]
    rule = ["---:" if looks_numeric(shown.iloc[:, column]) else "---" for column in range(shown.shape[1])]
    lines = [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
    return "\n".join([*lines, *(["", plate.caption] if plate.caption else []), ""])


def as_json(found: Exhibit, plate: Plate) -> str:
    """Return a table as JSON: the exhibit, its caption, its rows; null where a number is undefined."""
    rows = json.loads(plate.data.to_json(orient="records", double_precision=15))
    told = {"exhibit": found.name, "title": found.title, "caption": plate.caption, "rows": rows}
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def write_beside(path: Path, write: Callable[[Path], None]) -> None:
    """Write under a temporary name in the same folder, then move: the file is whole or what it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _picture(plate: Plate, path: Path, ending: str) -> None:
    # No date, so that the same numbers make the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name may be in any script
        compose(plate).savefig(path, format=ending, metadata=metadata)


def _text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))


def _cell(value: object) -> str:
    text = "–" if value is None or value is pd.NA or value != value else value  # NaN differs from itself
    return str(text).replace("|", "\\|").replace("\n", " ")
