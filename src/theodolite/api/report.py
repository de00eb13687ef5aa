"""theodolite.report: read the given surveys and folders, draw the pictures of studies, write the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from theodolite.api.figures import Source, as_list
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, first_line
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.registry import all_exhibits, make
from theodolite.exhibits.saving import render_picture
from theodolite.report import write
from theodolite.report.markdown import render_markdown
from theodolite.report.pictures import Picture
from theodolite.report.tables import Steps, Tables
from theodolite.storage.atomic import write_atomically
from theodolite.storage.download import download
from theodolite.storage.file_names import FACTS, UNFINISHED
from theodolite.studies.anisotropy.batch_tables import BATCHES, has_batches
from theodolite.studies.embeddings_2d import parse_methods
from theodolite.studies.laboratory import is_laboratory
from theodolite.studies.norm_variance.token_set_files import TOKEN_SETS, has_token_set_files
from theodolite.studies.reading import DEFAULT_TABLES, read_report_tables, read_survey_data
from theodolite.studies.series import is_series
from theodolite.studies.series.series import ATTENTION, SERIES, TRAINING, Series
from theodolite.studies.series.series import BATCHES as TRAINING_BATCHES
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.survey import Survey
from theodolite.text import pluralize, survey_name

ENDINGS = (".html", ".md")
ONLY_LABORATORIES = (
    "These folders hold laboratories but no survey or series, which Markdown requires; write an .html file "
    "instead."
)
REPRODUCED = ("surveys", "laboratories")  # where `theodolite reproduce` puts them


@dataclass(frozen=True)
class ReportInputs:
    """What a report is about, in the order given."""

    surveys: list[Tables] = field(default_factory=list)
    series: list[Steps] = field(default_factory=list)
    laboratories: list[SurveyData] = field(default_factory=list)
    with_second_pass: list[SurveyData] = field(default_factory=list)  # surveys that have token sets or batches


def read_inputs(folders: Sequence[Path], warn: Callable[[str], None], projections: str = "pca") -> ReportInputs:
    """Read everything that the folders hold. A folder of several surveys is read completely, sorted by name.

    An unfinished survey among several is skipped with a warning. Given by itself, it is rejected.
    """
    inputs, umap = ReportInputs(), "umap" in parse_projections(projections)
    for folder in _finished_folders(folders, warn):
        if is_series(folder):
            inputs.series.append(_series_steps(read_survey_data(folder)))
        elif is_laboratory(folder):
            inputs.laboratories.append(read_survey_data(folder))
        else:
            inputs.surveys.append(Tables.of(read_report_tables(folder, umap=umap)))
            inputs.with_second_pass.extend(_read_second_pass(folder))
    return inputs


def parse_projections(projections: str) -> list[str]:
    """Return the methods that the sample is projected by; raise for one that a report does not have."""
    methods = parse_methods(projections)
    if set(methods) - {"pca", "umap"} or "pca" not in methods:
        raise InputError(f"projections {projections!r} is not pca or pca,umap.")
    return methods


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
    optional = (series.tables.get(name, pd.DataFrame()) for name in (ATTENTION, TRAINING, TRAINING_BATCHES))
    return Steps(survey_name(series.facts), series.facts, series.tables[SERIES], *optional)


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


def write_page(inputs: ReportInputs, file: Path, listener: Listener) -> None:
    """Write the page about everything that was read, with the pictures of studies."""
    pictures = draw_pictures([*inputs.laboratories, *inputs.with_second_pass], listener.say, listener.warn)
    file.parent.mkdir(parents=True, exist_ok=True)
    write(inputs.surveys, file, inputs.series, pictures)


def render_text(inputs: ReportInputs, warn: Say) -> str:
    """Return a report in Markdown about the surveys and series that were read."""
    tables = [*inputs.surveys, *(series.tables for series in inputs.series)]
    if not tables:
        raise InputError(ONLY_LABORATORIES)
    if inputs.laboratories:
        count = pluralize(len(inputs.laboratories), "laboratory", "laboratories")
        warn(f"Omitted {count}, which Markdown cannot show; write an .html file instead.")
    return render_markdown(tables)


def report(
    surveys: Source | Sequence[Source],
    out: str | Path = "report.html",
    *,
    projections: str = "pca",
    listener: Listener | None = None,
) -> Path:
    """Write a report about surveys, series and laboratories, and return its path.

    `surveys` are in memory or folders; a folder may contain several. `out` ends in .html, for a self-contained
    interactive page, or in .md, for Markdown. `projections`: "pca", or "pca,umap" to also embed the sample by
    UMAP at a few layers, which takes about half a minute and requires umap-learn.
    """
    file, listener = Path(out), listener or Listener()
    if file.suffix.lower() not in ENDINGS:
        raise InputError(f"out: {file} must end in {' or '.join(ENDINGS)}.")
    with TemporaryDirectory() as folder:
        given = [_on_disk(one, Path(folder) / str(number)) for number, one in enumerate(as_list(surveys))]
        inputs = read_inputs(given, listener.warn, projections)
        if file.suffix.lower() == ".md":
            write_text(file, render_text(inputs, listener.warn))
        else:
            write_page(inputs, file, listener)
    return file


def write_text(file: Path, text: str) -> None:
    """Write a file of text at once."""

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    write_atomically(file, write)


def _on_disk(given: Source, folder: Path) -> Path:
    """Return the folder of a survey, laboratory or series; what is only in memory is written to `folder` first."""
    if isinstance(given, str | Path):
        return Path(given)
    if isinstance(given, SurveyData):
        if given.folder is None:
            raise InputError("A report needs the folder of the survey, or a survey as theodolite.load returns it.")
        return given.folder
    if isinstance(given, Survey) and isinstance(given.folder, Path):
        return given.folder
    if isinstance(given, Series):
        return given.write(folder)
    # A copy is saved, so that the survey does not take the temporary folder for its own.
    (replace(given) if isinstance(given, Survey) else given).save(folder)
    return folder
