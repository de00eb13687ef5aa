"""The report page: read what the given folders hold, draw the pictures of studies, write the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from theodolite.cli.console import Printer
from theodolite.errors import InputError, first_line
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.registry import all_exhibits, make
from theodolite.exhibits.saving import render_picture
from theodolite.report import write
from theodolite.report.pictures import Picture
from theodolite.report.tables import Steps, Tables
from theodolite.storage.download import download
from theodolite.storage.file_names import FACTS, UNFINISHED
from theodolite.studies.anisotropy.batch_tables import BATCHES, has_batches
from theodolite.studies.laboratory import is_laboratory
from theodolite.studies.norm_variance.token_set_files import TOKEN_SETS, has_token_set_files
from theodolite.studies.reading import DEFAULT_TABLES, read_report_tables, read_survey_data
from theodolite.studies.series import is_series
from theodolite.studies.series.series import ATTENTION, SERIES
from theodolite.studies.survey_data import SurveyData
from theodolite.text import pluralize, survey_name

REPRODUCED = ("surveys", "laboratories")  # where `theodolite reproduce` puts them


@dataclass(frozen=True)
class ReportInputs:
    """What a report is about, in the order given."""

    surveys: list[Tables] = field(default_factory=list)
    series: list[Steps] = field(default_factory=list)
    laboratories: list[SurveyData] = field(default_factory=list)
    with_second_pass: list[SurveyData] = field(default_factory=list)  # surveys that have token sets or batches


def read_inputs(folders: Sequence[Path], warn: Callable[[str], None]) -> ReportInputs:
    """Read everything that the folders hold. A folder of several surveys is read completely, sorted by name.

    An unfinished survey among several is skipped with a warning. Given by itself, it is rejected.
    """
    inputs = ReportInputs()
    for folder in _finished_folders(folders, warn):
        if is_series(folder):
            inputs.series.append(_series_steps(read_survey_data(folder)))
        elif is_laboratory(folder):
            inputs.laboratories.append(read_survey_data(folder))
        else:
            inputs.surveys.append(Tables.of(read_report_tables(folder)))
            inputs.with_second_pass.extend(_read_second_pass(folder))
    return inputs


def _finished_folders(folders: Sequence[Path], warn: Callable[[str], None]) -> list[Path]:
    finished = []
    for given in map(download, folders):
        inside = find_folders(given)
        for folder in inside:
            complete = (folder / FACTS).is_file() or not (folder / UNFINISHED).is_file()
            if complete or inside == [given]:
                finished.append(folder)
            else:
                warn(f"Skipped {folder}: the survey is unfinished. Run its command again with --resume.")
        if inside and not any(folder in finished for folder in inside):
            raise InputError(f"{given}: every survey in it is unfinished; run their commands again with --resume.")
    return finished


def find_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it holds a survey, a series or a laboratory; else its subfolders that do."""
    if not folder.is_dir() or _holds(folder):
        return [folder]
    inside = [each for each in sorted(folder.iterdir(), key=_natural) if _holds(each)]
    if not inside:
        inside = [each for name in REPRODUCED if (folder / name).is_dir() for each in find_folders(folder / name)]
    if not inside:
        raise InputError(
            f"{folder} does not contain a survey: there is no {FACTS} in it or in its subfolders. Give a folder "
            "that `theodolite survey --out` wrote, or one that contains several such folders."
        )
    return inside


def _holds(folder: Path) -> bool:
    # An unfinished survey counts, so that it is not skipped without a warning.
    survey = (folder / FACTS).is_file() or (folder / UNFINISHED).is_file()
    return survey or is_series(folder) or is_laboratory(folder)


def _natural(folder: Path) -> list[tuple[int, str]]:
    """Order step-9 before step-10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", folder.name)]


def _read_second_pass(folder: Path) -> list[SurveyData]:
    """Return the survey with its token sets and batches, if it has any."""
    present = [
        name
        for name, exists in ((TOKEN_SETS, has_token_set_files(folder)), (BATCHES, has_batches(folder)))
        if exists
    ]
    return [read_survey_data(folder, [*DEFAULT_TABLES, *present])] if present else []


def _series_steps(series: SurveyData) -> Steps:
    attention = series.tables.get(ATTENTION, pd.DataFrame())
    return Steps(survey_name(series.facts), series.facts, series.tables[SERIES], attention)


# Pictures of studies

Say = Callable[[str], None]
SECOND_PASS = {TOKEN_SETS, BATCHES}
PIXELS = 100  # per inch of a figure
PAPERS = {
    "anisotropy-inherent": "Godey et al. 2023",
    "bert-spaces": "Luisto 2024",
    "dynamics": "Razzhigaev et al. 2024",
    "norm-variance": "Yamagiwa and Shimodaira",
}


def draw_pictures(folders: Sequence[SurveyData], say: Say, warn: Say) -> list[Picture]:
    """Draw each exhibit from the folders that have what it needs. An exhibit that fails is reported by `warn`.

    Exhibits of laboratories are drawn from their folders. Of the exhibits of surveys, only those that need token
    sets or batches are drawn: the page shows the others itself.
    """
    inputs = {exhibit: usable for exhibit in all_exhibits().values() if (usable := _usable(exhibit, folders))}
    if inputs:
        say(f"drawing {pluralize(len(inputs), 'study', 'studies')}")
    pictures: list[Picture] = []
    for exhibit, usable in inputs.items():
        try:
            plate = make(exhibit, usable)
            media_type, data = render_picture(plate)
        except Exception as error:  # one failed exhibit must not stop the page and the other pictures
            line = first_line(error, "")
            warn(f"{exhibit.name} was not drawn ({line or type(error).__name__}).")
            continue
        if all(data != picture.data for picture in pictures):  # a paper may show the same figure twice
            caption = f"{plate.caption} {_source(exhibit)}"
            pictures.append(Picture(exhibit.title, caption, media_type, data, round(PIXELS * plate.size[0])))
    return pictures


def _usable(exhibit: Exhibit, folders: Sequence[SurveyData]) -> list[SurveyData]:
    verb = next((need.laboratory for need in exhibit.needs if need.laboratory), "")
    tables = SECOND_PASS & set(exhibit.reads)
    if verb:
        usable = [one for one in folders if one.facts.get("laboratory") == verb]
    else:
        usable = [one for one in folders if tables and tables <= set(one.tables) and "laboratory" not in one.facts]
    return [one for one in usable if all(need.is_met(one) for need in exhibit.needs)]


def _source(exhibit: Exhibit) -> str:
    return f"{exhibit.name}, after {PAPERS[exhibit.paper]}." if exhibit.paper in PAPERS else f"{exhibit.name}."


def write_page(inputs: ReportInputs, file: Path) -> None:
    """Write the page about everything that was read, with the pictures of studies."""
    printer = Printer()
    pictures = draw_pictures([*inputs.laboratories, *inputs.with_second_pass], printer.say, printer.warn)
    file.parent.mkdir(parents=True, exist_ok=True)
    write(inputs.surveys, file, inputs.series, pictures)
