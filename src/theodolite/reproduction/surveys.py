"""The surveys of a reproduction: reuse, resume or run them, then the second passes that exhibits need."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.report import write
from theodolite.reproduction.plan import Task
from theodolite.storage.file_names import FACTS, UNFINISHED, UNITS
from theodolite.storage.location import list_output_folder
from theodolite.studies.anisotropy.batch_tables import BATCHES
from theodolite.studies.anisotropy.batches import make_batches
from theodolite.studies.choice import default_population
from theodolite.studies.norm_variance.token_set_files import read_token_sets
from theodolite.studies.norm_variance.token_sets import make_token_sets
from theodolite.studies.reading import read_report_tables, read_survey_data
from theodolite.studies.survey_data import SurveyData, middle_layer
from theodolite.surveys.api import survey
from theodolite.surveys.resume import find_recorded_run

TEXT_ONLY = ("field", "column", "max_words", "max_tokens", "wrap", "clean_words", "contextuality")


def ensure_surveys(
    tasks: Sequence[Task], options: Callable[[Task], Mapping[str, Any]], listener: Listener
) -> list[Task]:
    """Make sure that all surveys exist; return the tasks with the folders that hold them.

    If a model is surveyed by word too, one pass makes both surveys, and that by word is inside the folder of the
    other. It gets a pass and a folder of its own if its text differs (`clean_words`), if one of the two surveys
    exists by itself, or if both do not fit in memory together.
    """
    words = {task.model: task for task in tasks if task.units == "word" and task.kind == "text"}
    together: dict[str, Task] = {}
    made = []
    for task in tasks:
        given, word = options(task), words.get(task.model, task)
        if task.model in together:
            task = replace(word, folder=together[task.model].folder / UNITS / "word")
            _write_report(task)
        elif word is not task and not given.get("clean_words") and _may_share(task, word):
            try:
                ensure_survey(task, given, listener, other_units=("word",))
                together[task.model] = task
            except MemoryLimitError:
                listener.warn(
                    f"{task.model}: both surveys do not fit in memory; that by word runs after the other"
                )
                ensure_survey(task, given, listener)
        else:
            ensure_survey(task, given, listener)
        made.append(task)
    return made


def _may_share(task: Task, word: Task) -> bool:
    """Return whether one pass may make both surveys: neither exists, or the folder of the first has both."""
    recorded = find_recorded_run(task.folder)
    if recorded is not None:
        return "word" in recorded.units
    return find_recorded_run(word.folder) is None


def ensure_survey(
    task: Task, options: Mapping[str, Any], listener: Listener, other_units: Sequence[str] = ()
) -> None:
    """Make sure that the task's folder holds a finished survey and its report; run only what is missing.

    `other_units` are surveyed in the same pass. The option `clean_words` is used for surveys by word only, and
    those in TEXT_ONLY for text models only.
    """
    options = {**options, "clean_words": bool(options.get("clean_words")) and task.units == "word"}
    if task.kind != "text":
        options = {name: value for name, value in options.items() if name not in TEXT_ONLY}
    _check_folder(task)
    units = [task.units, *other_units]
    listener.say(f"{task.model} by {' and '.join(units)}: {task.folder}")
    try:
        survey(task.model, task.corpus, out=task.folder, units=units, resume=True, listener=listener, **options)
    except TheodoliteError as error:
        raise _adapt_error(error, task, contextuality=bool(options.get("contextuality"))) from error
    _write_report(task)


def _check_folder(task: Task) -> None:
    """Reject a folder that holds files but no survey, finished or not."""
    folder = task.folder
    names = list_output_folder(folder, f"The survey of {task.model} requires a folder, but ")
    if names and not {FACTS, UNFINISHED} & set(names):
        raise InputError(
            f"{folder} holds {', '.join(names[:3])} and no survey, but the survey of {task.model} belongs there. "
            "Give another --out, or move these files."
        )


def _adapt_error(error: TheodoliteError, task: Task, *, contextuality: bool) -> TheodoliteError:
    """Return the error with advice that fits `reproduce`, which always resumes and never overwrites."""
    text = error.message
    problem, _, differences = text.partition("\n")
    if differences and problem.startswith("--resume") and "settings" in problem:
        return InputError(
            f"{task.folder} holds a survey of {task.model} with other settings:\n{differences}\n"
            f"Give the settings of that survey{_contextuality_flag(differences)}, give another --out, or delete "
            "that folder to survey again."
        )
    if contextuality:  # `reproduce` has no --memory
        text = re.sub(r"\bor [^,.;]*--memory", "or give --no-contextuality, which halves the tables", text)
    error.args = (text.replace(" with --resume", ""),)  # keeps the type of the error
    return error


def _contextuality_flag(lines: str) -> str:
    """Return the flag that a survey requires if it was made before the default changed."""
    return " (--no-contextuality)" if "--contextuality: False" in lines else ""


def _write_report(task: Task) -> None:
    page = task.folder / "report.html"
    if not page.is_file():
        write([read_report_tables(task.folder)], page)


# Second passes over the text

WITHOUT = "without-massive"
SecondPass = Callable[[Task, Listener], None]
"""Adds files to the folder of a finished survey, unless they exist. InputError: the survey is unsuitable."""


def ensure_token_sets(task: Task, listener: Listener) -> None:
    """Gather the vectors of chosen tokens (fig1, fig8, table2) unless this survey has them.

    Sinks or massive positions are excluded: otherwise a few of them would determine the plane that is drawn.
    """
    if not _has_sets(task):
        survey = read_survey_data(task.folder, ("layers",))
        population = default_population([survey.facts])
        if population == "all" and _has_massive(survey):
            population = WITHOUT
        make_token_sets(
            task.folder, population=population, model=task.model, corpus=task.corpus, listener=listener
        )


def ensure_batches(task: Task, listener: Listener) -> None:
    """Measure contiguous batches (fig1) unless this survey has them. No exhibit shows their dimension."""
    if not _has_batches(task):
        make_batches(task.folder, dimension=False, model=task.model, corpus=task.corpus, listener=listener)


SECOND_PASSES: dict[str, tuple[SecondPass, ...]] = {
    "norm-variance": (ensure_token_sets,),
    "dynamics": (ensure_batches,),
}
"""By paper, in the order in which they run. They are not run for the additional surveys by word."""


def run_second_passes(paper: str, task: Task, listener: Listener) -> None:
    """Run the second passes that a paper needs. If this survey is unsuitable for one, only a warning is given."""
    for second_pass in SECOND_PASSES.get(paper, ()) if task.kind == "text" else ():
        try:
            second_pass(task, listener)
        except InputError as error:
            listener.warn(str(error))


def _has_massive(survey: SurveyData) -> bool:
    """Return whether the layer of the token sets has massive positions and the survey can exclude them."""
    rows = survey.layers[survey.layers["layer"] == middle_layer(survey)]
    return WITHOUT in survey.facts["populations"] and bool((rows["massive"] > 0).any())


def _has_sets(task: Task) -> bool:
    """Return whether the folder holds token sets of this survey; damaged or outdated ones do not count."""
    try:
        return read_token_sets(task.folder, read_survey_data(task.folder, ()).facts) is not None
    except TheodoliteError:
        return False


def _has_batches(task: Task) -> bool:
    """Return whether the folder holds batches of this survey."""
    try:
        return BATCHES in read_survey_data(task.folder, (BATCHES,)).tables
    except TheodoliteError:
        return False
