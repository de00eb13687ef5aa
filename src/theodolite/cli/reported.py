"""What a report is about: surveys, series and laboratories, wherever they lie in the folders given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from theodolite.errors import InputError
from theodolite.naming import survey_name
from theodolite.report.series_tables import Steps
from theodolite.report.tables import Tables
from theodolite.studies.anisotropy.batch_files import batches_lie_in
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.dynamics.names import ATTENTION, SERIES
from theodolite.studies.laboratory import is_laboratory
from theodolite.studies.norm_variance.chosen_sets import SETS
from theodolite.studies.norm_variance.set_files import lie_in
from theodolite.studies.reading import TABLES, read
from theodolite.studies.series import is_series
from theodolite.studies.survey_tables import survey_tables
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.fetching import fetched
from theodolite.surveys.folder import FACTS, UNFINISHED

REPRODUCED = ("surveys", "laboratories")  # where `theodolite reproduce` puts them


@dataclass(frozen=True)
class Reported:
    """What was read, in the order given. `beside` are surveys with token sets or batches, which exhibits draw."""

    surveys: list[Tables] = field(default_factory=list)
    series: list[Steps] = field(default_factory=list)
    laboratories: list[Surveyed] = field(default_factory=list)
    beside: list[Surveyed] = field(default_factory=list)


def read_all(folders: Sequence[Path], warn: Callable[[str], None]) -> Reported:
    """Read everything that the folders hold; a folder of several is taken whole, in the order of their names.

    An unfinished survey among several is told of and left out; given by itself it is refused.
    """
    found = Reported()
    for folder in _finished(folders, warn):
        if is_series(folder):
            found.series.append(_series(read(folder)))
        elif is_laboratory(folder):
            found.laboratories.append(read(folder))
        else:
            found.surveys.append(Tables.of(survey_tables(folder)))
            found.beside.extend(_beside(folder))
    return found


def _finished(folders: Sequence[Path], warn: Callable[[str], None]) -> list[Path]:
    kept = []
    for given in map(fetched, folders):
        inside = spread(given)
        for folder in inside:
            whole = (folder / FACTS).is_file() or not (folder / UNFINISHED).is_file()
            if whole or inside == [given]:
                kept.append(folder)
            else:
                warn(f"{folder} is unfinished and left out; run its command again with --resume.")
        if inside and not any(folder in kept for folder in inside):
            raise InputError(f"{given}: every survey in it is unfinished; run their commands again with --resume.")
    return kept


def spread(folder: Path) -> list[Path]:
    """Return the folder itself if something was left in it, else those of its folders in which something was."""
    if not folder.is_dir() or _holds(folder):
        return [folder]
    inside = [each for each in sorted(folder.iterdir(), key=_natural) if _holds(each)]
    if not inside:
        inside = [each for name in REPRODUCED if (folder / name).is_dir() for each in spread(folder / name)]
    if not inside:
        raise InputError(
            f"{folder} holds no survey, and no folder in it does: there is no {FACTS}. Give the folder that "
            "`theodolite survey --out` made, or one that holds several such."
        )
    return inside


def _holds(folder: Path) -> bool:
    # An unfinished survey counts: it is not to be left out unsaid.
    whole = (folder / FACTS).is_file() or (folder / UNFINISHED).is_file()
    return whole or is_series(folder) or is_laboratory(folder)


def _natural(folder: Path) -> list[tuple[int, str]]:
    """Order step-9 before step-10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", folder.name)]


def _beside(folder: Path) -> list[Surveyed]:
    more = [name for name, lies in ((SETS, lie_in(folder)), (BATCHES, batches_lie_in(folder))) if lies]
    return [read(folder, [*TABLES, *more])] if more else []


def _series(series: Surveyed) -> Steps:
    attention = series.tables.get(ATTENTION, pd.DataFrame())
    return Steps(survey_name(series.facts), series.facts, series.tables[SERIES], attention)
