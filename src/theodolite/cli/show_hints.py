"""What `show` says beside the table: of massive positions, and of what lies in a folder that is no survey."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MOST = 4  # folders that a sentence names


def massive_hint(layers: pd.DataFrame, population: str, populations: Sequence[str]) -> str | None:
    """Return the line that names the other population, where massive positions are in this one."""
    if "massive" not in layers.columns or "without-massive" not in populations:
        return None
    rows = layers[layers["population"] == population].to_dict("records")
    told = [(int(row["massive"]), int(row["n"])) for row in rows if row["massive"] == row["massive"]]  # NaN: none
    most, n = max(told, default=(0, 0))
    if most == 0:
        return None
    return (
        f"Massive positions are among these: up to {most:,} of {n:,} in a layer, and a few can "
        "make Q, V, svd and rank. See --population without-massive."
    )


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
