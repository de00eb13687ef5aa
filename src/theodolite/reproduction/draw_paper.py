"""Draw every exhibit of a paper that finished surveys allow, with an index page. Nothing is surveyed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit, drop_unused_options, find_unused_options
from theodolite.exhibits.registry import all_exhibits
from theodolite.exhibits.saving import TABLES
from theodolite.reproduction.drawing import ExhibitWriter
from theodolite.reproduction.index import INDEX, Reproduction
from theodolite.reproduction.plan import Edition, Task, check_paper, drop_repeated
from theodolite.studies.choice import AUTO, Choice, check_population
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData, check_layer

FACTS = ("survey.json", "laboratory.json", "series.json", "unfinished.json")


def check_figure_folder(out: Path, paper: str, folders: Sequence[Path]) -> None:
    """Reject a folder in which figures would mix with a survey or replace the index page of something else."""
    if out.suffix.lower().removeprefix(".") in TABLES or out.is_file():
        raise InputError(f"--out {out} names a file; {paper} is a paper, so give a folder for its figures.")
    facts = next((name for name in FACTS if (out / name).is_file()), None)
    if facts or out.resolve() in [folder.resolve() for folder in folders]:
        raise InputError(f"--out {out} is the folder of a survey or a study; give another one for the figures.")
    present = _read_index(out)
    if present is not None and present != paper:
        raise InputError(f"--out {out} already holds {present}; give another folder.")


def _read_index(out: Path) -> str | None:
    """Return the paper whose figures a folder holds, or what else its index is about; None without an index."""
    if not (out / INDEX).is_file():
        return "an index.html" if (out / "index.html").exists() else None
    try:
        index = json.loads((out / INDEX).read_text("utf-8"))
        files = [path for row in index["exhibits"] for path in row["files"].values()]
        return f"a reproduction of {index['paper']}" if any("/" in path for path in files) else str(index["paper"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"an {INDEX} of something else"


SUFFIXES = {
    "population": "{}",
    "variant": "{}",
    "filter": "{}-units",
    "specials": "specials-{}",
    "depth": "{}-depth",
    "steps": "{}-steps",
}
"""What is added to a file's name for each option that differs from the paper."""


def draw_paper(
    paper: str,
    folders: Sequence[Path],
    out: Path,
    choice: Choice | None = None,
    *,
    endings: Mapping[str, Sequence[str]] | None = None,
    captioned: bool = True,
    listener: Listener | None = None,
) -> Reproduction:
    """Draw all exhibits that these folders allow into OUT, with OUT/index.html.

    Nothing is written if none can be drawn. Options that an exhibit does not support are ignored for that exhibit.
    """
    listener, chosen, known = listener or Listener(), choice or Choice(AUTO), list(all_exhibits().values())
    check_paper(paper, known)
    exhibits = drop_repeated([exhibit for exhibit in known if exhibit.paper == paper])
    check_figure_folder(out, paper, folders)
    _check_options_used(paper, exhibits, chosen)
    surveys = [read_survey_data(folder, ()) for folder in folders]
    _check_available(surveys, chosen)
    tasks = [_task(survey, folder) for survey, folder in zip(surveys, folders, strict=True)]
    writer, results = ExhibitWriter(tasks, out, place="", endings=endings, captioned=captioned), []
    for number, exhibit in enumerate(exhibits, 1):
        listener.say(f"drawing {number} of {len(exhibits)}: {exhibit.id}")
        used = drop_unused_options(exhibit, chosen)
        results.append(writer.draw(Edition(exhibit, used, name_choice(used))))
    corpora = ", ".join(dict.fromkeys(task.corpus for task in tasks if task.corpus))
    reproduction = Reproduction(paper, corpora or "no corpus", out, tasks, results)
    if any(result.drawn for result in results):
        reproduction.write()
    return reproduction


def name_choice(choice: Choice) -> str:
    """Return the suffix of a file's name: the options that differ from the paper.

    >>> name_choice(Choice("auto")), name_choice(Choice("without-first", "unbiased", "all", layers=(3, 5)))
    ('', 'without-first-unbiased-all-units-layer-3-5')
    """
    default = Choice(AUTO)
    values = {option: getattr(choice, option) for option in SUFFIXES}
    parts = [
        SUFFIXES[option].format(value) for option, value in values.items() if value != getattr(default, option)
    ]
    return "-".join([*parts, *(["layer", *map(str, choice.layers)] if choice.layers else [])])


def _task(survey: SurveyData, folder: Path) -> Task:
    laboratory = str(survey.facts.get("laboratory") or ("dynamics" if survey.facts.get("series") else ""))
    corpus = "" if laboratory else survey.corpus
    return Task(survey.model, str(survey.facts.get("units", "none")), folder, corpus, laboratory=laboratory)


def _check_options_used(paper: str, exhibits: Sequence[Exhibit], choice: Choice) -> None:
    """Reject an option that no exhibit supports."""
    for option in set.intersection(*(set(find_unused_options(exhibit, choice)) for exhibit in exhibits)):
        flag = "layer" if option == "layers" else option
        raise InputError(f"--{flag} is not supported by any exhibit of {paper}; omit it.")


def _check_available(surveys: Sequence[SurveyData], choice: Choice) -> None:
    """Reject a population or a layer that none of the surveys has. If one of them has it, exhibits can show it."""
    if choice.population != AUTO:
        _reject_if_all_fail(check_population, surveys, choice.population)
    for layer in choice.layers:
        _reject_if_all_fail(check_layer, surveys, layer)


def _reject_if_all_fail(
    check: Callable[[SurveyData, Any], object], surveys: Sequence[SurveyData], value: Any
) -> None:
    errors = []
    for survey in surveys:
        try:
            check(survey, value)
        except InputError as error:
            errors.append(error)
    if errors and len(errors) == len(surveys):
        raise errors[0]
