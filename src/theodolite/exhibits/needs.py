"""What an exhibit may need of a survey, and the command that would make it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from theodolite.studies.norm_variance.chosen_sets import has_sets
from theodolite.studies.surveyed import Surveyed


@dataclass(frozen=True)
class Need:
    """A test on a survey; `lack` is the sentence for one that fails it."""

    words: str
    met: Callable[[Surveyed], bool]
    lack: Callable[[Surveyed], str]


def _no_units(survey: Surveyed) -> str:
    return (
        f"the vectors of {survey.model} belong to no units; "
        f"`{survey.command('--groups', 'COLUMN')}` would give them some"
    )


def _no_model(survey: Surveyed) -> str:
    return (
        f"{survey.model} was measured without a model; `theodolite survey MODEL --corpus CORPUS --out DIR` has one"
    )


def _no_words(survey: Surveyed) -> str:
    return (
        f"the units of {survey.model} on {survey.corpus} are not words (they are: {survey.facts.get('units')}); "
        f"`{survey.command('--units', 'word')}` would count by words"
    )


def _no_lengths(survey: Surveyed) -> str:
    return (
        f"the survey of {survey.model} does not record how many words its documents have; "
        f"`{survey.command()}` with this version would"
    )


def _no_sets(survey: Surveyed) -> str:
    where = "DIR" if survey.folder is None else shlex.quote(str(survey.folder))
    return f"the survey of {survey.model} has none; `theodolite sets {where}` would make them"


UNITS = Need("surveys with units (any text; `measure --groups`)", lambda s: s.facts["units"] != "none", _no_units)
MODEL = Need("surveys of a model", lambda s: s.facts.get("model") is not None, _no_model)
WORDS = Need("surveys made with `--units word`", lambda s: s.facts["units"] == "word", _no_words)
LENGTHS = Need(
    "surveys that record their documents' words",
    lambda s: bool(s.facts["corpus"].get("words_histogram")),
    _no_lengths,
)
TOKEN_SETS = Need("token sets beside the survey (`theodolite sets DIR`)", has_sets, _no_sets)
