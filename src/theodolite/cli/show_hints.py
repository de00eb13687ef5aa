"""What is said beside the table: of massive positions, of what else can make its numbers, and of other folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from theodolite.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MOST = 4  # folders that a sentence names


def massive_hint(layers: pd.DataFrame, population: str, populations: Sequence[str]) -> str | None:
    """Return the line that tells of massive positions, where some are in this population and another has none."""
    if "massive" not in layers.columns or "without-massive" not in populations:
        return None
    rows = layers[layers["population"] == population].to_dict("records")
    told = [(int(row["massive"]), int(row["n"])) for row in rows if row["massive"] == row["massive"]]  # NaN: none
    most, n = max(told, default=(0, 0))
    if most == 0:
        return None
    return (
        f"Massive positions are among these: up to {most:,} of {n:,} in a layer, and a few can "
        "make Q, V, svd and rank."
    )


def without_massive(folder: object) -> str:
    """Return the sentence with the command that leaves massive positions out.

    >>> without_massive("a folder")
    "`theodolite show 'a folder' --population without-massive` leaves them out."
    """
    return f"`theodolite show {quote(str(folder))} --population without-massive` leaves them out."


def notes(layers: pd.DataFrame, population: str) -> list[str]:
    """Return a line for each thing that can make the numbers of the last block, or of the only layer."""
    told = layers[layers["population"] == population].to_dict("records")
    rows = [{str(column): value for column, value in row.items()} for row in told]
    if not rows:
        return []
    row = next((row for row in reversed(rows) if not str(row["layer_name"]).endswith("final norm")), rows[-1])
    said = [text for text in (_rogue(row), _duplicates(row), _zero(row)) if text]
    where = f"{row['layer_name']}: " if len(rows) > 1 else ""
    return [f"{where}{text}" for text in said]


def _rogue(row: dict[str, Any]) -> str:
    """Tell of one coordinate that makes most of the mean cosine."""
    from theodolite.report.findings.rogue import made_by_one
    from theodolite.report.rows import number

    if not made_by_one(row):
        return ""
    return f"coordinate {number(row, 'rogue_coordinate'):.0f} makes {number(row, 'rogue_cosine_share'):.0%} of cos"


def _duplicates(row: dict[str, Any]) -> str:
    from theodolite.report.numbers import count
    from theodolite.report.rows import number

    dropped, kept = number(row, "sample_duplicates"), number(row, "twonn_n")
    if not dropped > 0:
        return ""
    are = "is a duplicate" if dropped == 1 else "are duplicates"
    return f"{count(dropped)} of {count(dropped + kept)} sampled vectors {are}"


def _zero(row: dict[str, Any]) -> str:
    from theodolite.naming import several
    from theodolite.report.rows import number

    zero = number(row, "zero")
    return f"{several(zero, 'vector')} {'is' if zero == 1 else 'are'} zero" if zero > 0 else ""


def check_one_survey(folder: Path) -> None:
    """Refuse a folder that holds no survey but something else that this program left, and name that."""
    from theodolite.studies.laboratory import is_laboratory
    from theodolite.studies.series import is_series
    from theodolite.surveys.folder import FACTS, UNFINISHED

    if not folder.is_dir() or (folder / FACTS).is_file() or (folder / UNFINISHED).is_file():
        return
    inside = sorted(each.parent for each in [*folder.glob(f"*/{FACTS}"), *folder.glob(f"*/*/{FACTS}")])
    if is_laboratory(folder):
        raise InputError(f"{folder} is of a laboratory, not a survey; `theodolite exhibits` lists what it draws.")
    if is_series(folder):
        steps = f"; show one of its steps: {_named(inside)}" if inside else ""
        raise InputError(
            f"{folder} is a series, not a survey; `theodolite report {folder}` reads it whole{steps}."
        )
    if inside:
        raise InputError(f"{folder} holds {len(inside)} surveys; show one of them: {_named(inside)}.")


def _named(folders: Sequence[Path]) -> str:
    more = f" and {len(folders) - MOST} more" if len(folders) > MOST else ""
    return ", ".join(map(str, folders[:MOST])) + more
