"""theodolite exhibit PAPER/ID: one figure or table to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from theodolite.cli.console import result
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import check_data, check_ending, save, save_data
from theodolite.studies.choice import Choice
from theodolite.studies.reading import read


def draw_one(
    name: str, surveys: Sequence[Path], out: Path, choice: Choice, data: Path | None, *, captioned: bool
) -> None:
    """Draw an exhibit, and tell where it is; without a caption under it, tell that too."""
    found = find(name)
    check_ending(found, out)
    if data is not None:
        check_data(data)
    plate = make(found, [read(folder, found.reads) for folder in surveys], choice)
    save(found, plate if captioned else replace(plate, caption=""), out)
    result(f"{found.name}: {out}")
    if not captioned:
        result(f"caption: {plate.caption}")
    if data is not None:
        save_data(plate.data, data)
        result(f"data: {data}")
