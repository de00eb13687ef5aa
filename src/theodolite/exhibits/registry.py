"""All exhibits by name. To add one, decorate a function in any module of this package with `@exhibit(...)`."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from theodolite import exhibits as package
from theodolite.errors import InputError, nearest
from theodolite.exhibits.exhibit import Exhibit, Maker, Plate, find_unused_options
from theodolite.exhibits.needs import SURVEY, Need
from theodolite.studies.choice import AUTO, Choice, check_population
from theodolite.studies.survey_data import SurveyData, check_layer, make_labels

NOTHING_COMPUTED = {
    "norm-variance/fig3": "an illustration of the sets of vectors over which M and V are computed",
    "bert-spaces/fig4": "a diagram of the transformer, taken from Vaswani et al. (2017)",
    "bert-spaces/fig5": "a diagram of an encoder",
    "bert-spaces/fig7": "a diagram of self-attention",
    "bert-spaces/fig8": "a picture of attention patterns, taken from Kovaleva et al. (2019)",
    "bert-spaces/fig9": "a diagram of BERT",
}
"""Figures of the papers that show no computed numbers."""


def explain_unknown_name(name: str, known: Sequence[str]) -> str:
    """Return the error message for an unknown name: why there is no such exhibit, or similar names.

    >>> explain_unknown_name("fig4", ["dynamics/fig4", "norm-variance/fig4"])
    "There is no exhibit 'fig4'. Add the paper: 'dynamics/fig4' or 'norm-variance/fig4'."
    """
    if name in NOTHING_COMPUTED:
        return (
            f"There is no exhibit {name!r}: in the paper it is {NOTHING_COMPUTED[name]}, without computed numbers."
        )
    same = [each for each in known if each.partition("/")[2] == name.lower()]
    if same:
        return f"There is no exhibit {name!r}. Add the paper: {_join_with_or(same)}."
    papers = [] if "/" in name else list(dict.fromkeys(each.partition("/")[0] for each in known))
    return f"There is no exhibit {name!r}.{nearest(name, [*papers, *known])} `theodolite exhibits` lists all."


def _join_with_or(names: Sequence[str]) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


_exhibits: dict[str, Exhibit] = {}
ANY_SURVEY = "at least one survey's folder"


def exhibit(
    *names: str,
    title: str,
    kind: str = "figure",
    needs: Sequence[Need] = (),
    options: Sequence[str] = (),
    reads: Sequence[str] = ("layers", "tokens", "units"),
    populations: Sequence[str] = (),
) -> Callable[[Maker], Maker]:
    """Register the decorated function under PAPER/ID, or under several names if the paper repeats a figure."""

    def register(make: Maker) -> Maker:
        for name in names:
            if name in _exhibits:
                raise ValueError(f"exhibit {name!r} is registered twice")
            _exhibits[name] = Exhibit(
                name, title, kind, make, tuple(needs), tuple(options), tuple(reads), tuple(populations)
            )
        return make

    return register


def all_exhibits() -> dict[str, Exhibit]:
    """Return every exhibit by name, sorted by paper, then figures before tables, then by number."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_exhibits.items(), key=lambda item: _sort_key(item[0])))


def find(name: str) -> Exhibit:
    """Return an exhibit by its name. Raise for an unknown name, with the reason or similar names."""
    known = all_exhibits()
    if is_paper(name):
        raise InputError(f"{name!r} is a paper. Name one of its exhibits; `theodolite exhibits` lists them.")
    if name not in known:
        raise InputError(explain_unknown_name(name, list(known)))
    return known[name]


def is_paper(name: str) -> bool:
    """Return whether this is the name of a paper that has exhibits."""
    return any(exhibit.paper == name for exhibit in all_exhibits().values())


def make(found: Exhibit, surveys: Sequence[SurveyData], choice: Choice | None = None) -> Plate:
    """Check that the surveys have what the exhibit needs and that it uses every option; return its plate."""
    chosen = choice or Choice(AUTO)
    if not surveys:
        other = next((f"{need.description}; none was given" for need in found.needs if need.laboratory), "")
        raise InputError(f"{found.name} needs {other or ANY_SURVEY}.")
    _check_options(found, chosen)
    kept, omitted = _split_surveys(found, surveys)
    uses = "population" in found.options
    chosen = chosen.for_surveys(kept, found.populations) if uses else replace(chosen, population="all")
    for survey in kept:
        for need in _all_needs(found):
            if not need.is_met(survey):
                raise InputError(f"{found.name} needs {need.description}: {need.explain(survey)}.")
        check_population(survey, chosen.population)
        for layer in chosen.layers:
            check_layer(survey, layer)
    plate = found.make(kept, chosen)
    return replace(plate, caption=f"{plate.caption} {omitted}") if omitted else plate


def _split_surveys(found: Exhibit, surveys: Sequence[SurveyData]) -> tuple[list[SurveyData], str]:
    """Return the surveys that the exhibit can draw, or all if it can draw none, and a sentence on the others."""
    kept: list[SurveyData] = []
    others: dict[str, list[str]] = {}
    for survey, name in zip(surveys, make_labels(surveys), strict=True):
        # Later needs may read what a folder of another kind does not have.
        unmet = next((need for need in _all_needs(found) if not need.is_met(survey)), None)
        if unmet is not None and unmet.reason is not None:
            others.setdefault(unmet.reason(survey), []).append(name)
        else:
            kept.append(survey)
    omitted = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in others.items())
    return (kept, f"Omitted: {omitted}." if omitted else "") if kept else (list(surveys), "")


def _all_needs(found: Exhibit) -> tuple[Need, ...]:
    """Return what an exhibit needs: surveys, unless it reads the folders of a laboratory."""
    return found.needs if any(need.laboratory for need in found.needs) else (SURVEY, *found.needs)


def _check_options(found: Exhibit, choice: Choice) -> None:
    for message in find_unused_options(found, choice).values():
        raise InputError(f"{found.name} {message}.")


def one_layer(choice: Choice, default: int) -> int:
    """Return the chosen layer, or the default."""
    return choice.layers[0] if choice.layers else default


def _sort_key(name: str) -> tuple[str, bool, list[tuple[int, str]]]:
    paper, _, number = name.partition("/")
    parts = re.findall(r"\d+|\D+", number)
    return (
        paper,
        not number.startswith("fig"),
        [(int(part), "") if part.isdigit() else (-1, part) for part in parts],
    )
