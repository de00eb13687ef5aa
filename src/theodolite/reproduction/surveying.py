"""The surveys of a reproduction: found finished, taken up again, or made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.errors import InputError, TheodoliteError
from theodolite.report import write
from theodolite.reproduction.plan import Task
from theodolite.studies.survey_tables import survey_tables
from theodolite.surveys.folder import FACTS, UNFINISHED
from theodolite.surveys.listener import Listener
from theodolite.surveys.models import survey

OTHER = "--resume: the run in"  # how a run says that its folder holds another one
GO_ON = "the same command with --resume goes on"
MORE_MEMORY = "or allow more with --memory"  # which this command has not


TEXT_ONLY = ("field", "column", "max_words", "max_tokens", "wrap", "clean_words", "contextuality")


def surveyed(task: Task, options: Mapping[str, Any], listener: Listener) -> None:
    """Leave a finished survey in the task's folder, with its report; make no more of it than is missing.

    Of the options `clean_words` is for surveys by words alone, and some are for text.
    """
    options = {**options, "clean_words": bool(options.get("clean_words")) and task.units == "word"}
    if task.kind != "text":
        options = {name: value for name, value in options.items() if name not in TEXT_ONLY}
    _check_folder(task)
    listener.say(f"{task.model} by {task.units}: {task.folder}")
    try:
        survey(
            task.model, task.corpus, out=task.folder, units=task.units, resume=True, listener=listener, **options
        )
    except TheodoliteError as error:
        raise _in_our_words(error, task, contextuality=bool(options.get("contextuality"))) from error
    _report(task)


def _check_folder(task: Task) -> None:
    """Refuse a folder that holds something else than a survey, finished or not."""
    folder = task.folder
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; the survey of {task.model} would go there. Give another --out.")
    held = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if held and not {FACTS, UNFINISHED} & set(held):
        raise InputError(
            f"{folder} holds no survey but {', '.join(held[:3])}; the survey of {task.model} would go there. "
            "Give another --out, or move that away."
        )


def _in_our_words(error: TheodoliteError, task: Task, *, contextuality: bool) -> TheodoliteError:
    """Return the error with a way out that this command has: it resumes by itself and overwrites nothing."""
    told = str(error)
    if told.startswith(OTHER):
        _, _, lines = told.partition("\n")
        return InputError(
            f"{task.folder} holds a survey of {task.model} with other settings:\n{lines}\n"
            f"Give the settings that it was made with{_as_there(lines)}, or another --out; or delete that folder "
            "to survey again."
        )
    if contextuality:
        told = told.replace(MORE_MEMORY, "or give --no-contextuality, which halves the tables")
    error.args = (told.replace(GO_ON, "the same command goes on"),)  # no new one: not every kind is made so
    return error


def _as_there(lines: str) -> str:
    """Return the switch that a survey from before its default changed wants."""
    return " (--no-contextuality)" if "settings.contextuality: False there" in lines else ""


def _report(task: Task) -> None:
    page = task.folder / "report.html"
    if not page.is_file():
        write([survey_tables(task.folder)], page)
