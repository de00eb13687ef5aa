"""A folder for a paper's figures: new, or one with the same paper's; never a survey's or a reproduction's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from theodolite.errors import InputError
from theodolite.exhibits.saving import TABLES
from theodolite.reproduction.result import INDEX

FACTS = ("survey.json", "laboratory.json", "series.json", "unfinished.json")


def check_free(out: Path, paper: str, folders: Sequence[Path]) -> None:
    """Refuse a folder in which figures would stand among other things or replace another page."""
    if out.suffix.lower().removeprefix(".") in TABLES or out.is_file():
        raise InputError(f"--out {out}: {paper} is a paper, so this names a folder for its figures, not a file.")
    held = next((name for name in FACTS if (out / name).is_file()), None)
    if held or out.resolve() in [folder.resolve() for folder in folders]:
        raise InputError(f"--out {out} is the folder of a survey or a study; give another for the figures.")
    there = _index(out)
    if there is not None and there != paper:
        raise InputError(f"--out {out} holds {there}; give another folder.")


def _index(out: Path) -> str | None:
    """Return what the index page in a folder is of, a paper or something else; None if there is no page."""
    if not (out / INDEX).is_file():
        return "an index.html already" if (out / "index.html").exists() else None
    try:
        held = json.loads((out / INDEX).read_text("utf-8"))
        files = [path for row in held["exhibits"] for path in row["files"].values()]
        return f"a reproduction of {held['paper']}" if any("/" in path for path in files) else str(held["paper"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"an {INDEX} of something else"
