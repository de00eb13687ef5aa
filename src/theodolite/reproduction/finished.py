"""A paper from finished surveys: every exhibit that they allow, and the index page; nothing is surveyed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.heeding import heeded, unheeded
from theodolite.exhibits.registry import all_exhibits
from theodolite.reproduction.drawing import Artist
from theodolite.reproduction.free_folder import check_free
from theodolite.reproduction.plan import Edition, Task, check_paper, once
from theodolite.reproduction.result import Reproduction
from theodolite.studies.choice import Choice, check_population
from theodolite.studies.reading import read
from theodolite.studies.surveyed import Surveyed, check_layer
from theodolite.surveys.listener import Listener

NAMED = {
    "population": "{}",
    "variant": "{}",
    "filter": "{}-units",
    "specials": "specials-{}",
    "depth": "{}-depth",
    "steps": "{}-steps",
}
"""What a file is called for, where the choice is not the paper's."""


def finished(
    paper: str,
    folders: Sequence[Path],
    out: Path,
    choice: Choice | None = None,
    *,
    endings: Mapping[str, Sequence[str]] | None = None,
    captioned: bool = True,
    listener: Listener | None = None,
) -> Reproduction:
    """Draw all of a paper that these folders allow into OUT, with OUT/index.html; leave nothing if that is none.

    An exhibit that does not heed a part of the choice is drawn without that part.
    """
    listener, chosen, known = listener or Listener(), choice or Choice(), list(all_exhibits().values())
    check_paper(paper, known)
    exhibits = once([exhibit for exhibit in known if exhibit.paper == paper])
    check_free(out, paper, folders)
    _check_heeded(paper, exhibits, chosen)
    surveys = [read(folder, ()) for folder in folders]
    _check_had(surveys, chosen)
    tasks = [_task(survey, folder) for survey, folder in zip(surveys, folders, strict=True)]
    artist, shown = Artist(tasks, out, place="", endings=endings, captioned=captioned), []
    for number, exhibit in enumerate(exhibits, 1):
        listener.say(f"drawing {number} of {len(exhibits)}: {exhibit.id}")
        mine = heeded(exhibit, chosen)
        shown.append(artist.draw(Edition(exhibit, mine, told(mine))))
    corpora = ", ".join(dict.fromkeys(task.corpus for task in tasks if task.corpus))
    made = Reproduction(paper, corpora or "no corpus", out, tasks, shown)
    if any(one.drawn for one in shown):
        made.write()
    return made


def told(choice: Choice) -> str:
    """Return how a choice differs from the paper's, as the end of a file's name.

    >>> told(Choice()), told(Choice("without-first", "unbiased", "all", layers=(3, 5)))
    ('', 'without-first-unbiased-all-units-layer-3-5')
    """
    plain = Choice()
    values = {option: getattr(choice, option) for option in NAMED}
    words = [NAMED[option].format(value) for option, value in values.items() if value != getattr(plain, option)]
    return "-".join([*words, *(["layer", *map(str, choice.layers)] if choice.layers else [])])


def _task(survey: Surveyed, folder: Path) -> Task:
    laboratory = str(survey.facts.get("laboratory") or ("dynamics" if survey.facts.get("series") else ""))
    corpus = "" if laboratory else survey.corpus
    return Task(survey.model, str(survey.facts.get("units", "none")), folder, corpus, laboratory=laboratory)


def _check_heeded(paper: str, exhibits: Sequence[Exhibit], choice: Choice) -> None:
    """Refuse an option that is of no use to any exhibit."""
    for option in set.intersection(*(set(unheeded(exhibit, choice)) for exhibit in exhibits)):
        word = "layer" if option == "layers" else option
        raise InputError(f"--{word}: no exhibit of {paper} heeds it; leave it out.")


def _check_had(surveys: Sequence[Surveyed], choice: Choice) -> None:
    """Refuse a population or a layer that none of the surveys has; what one has, some exhibits may show."""
    _refuse_if_none(check_population, surveys, choice.population)
    for layer in choice.layers:
        _refuse_if_none(check_layer, surveys, layer)


def _refuse_if_none(check: Callable[[Surveyed, Any], object], surveys: Sequence[Surveyed], wanted: Any) -> None:
    errors = []
    for survey in surveys:
        try:
            check(survey, wanted)
        except InputError as error:
            errors.append(error)
    if errors and len(errors) == len(surveys):
        raise errors[0]
