"""All exhibits by name. A new one is a function with `@exhibit(...)` in any module of this package."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from theodolite import exhibits as package
from theodolite.errors import InputError
from theodolite.exhibits.absent import why_absent
from theodolite.exhibits.exhibit import Exhibit, Maker, Plate
from theodolite.exhibits.heeding import unheeded
from theodolite.exhibits.needs import SURVEY, Need
from theodolite.studies.choice import Choice, check_population
from theodolite.studies.surveyed import Surveyed, check_layer, labels

_exhibits: dict[str, Exhibit] = {}
FOLDER = "at least one survey's folder"


def exhibit(
    *names: str,
    title: str,
    kind: str = "figure",
    needs: Sequence[Need] = (),
    options: Sequence[str] = (),
    reads: Sequence[str] = ("layers", "tokens", "units"),
) -> Callable[[Maker], Maker]:
    """Register the decorated function under PAPER/ID, or under several where the paper repeats a figure."""

    def register(make: Maker) -> Maker:
        for name in names:
            if name in _exhibits:
                raise ValueError(f"exhibit {name!r} is taken")
            _exhibits[name] = Exhibit(name, title, kind, make, tuple(needs), tuple(options), tuple(reads))
        return make

    return register


def all_exhibits() -> dict[str, Exhibit]:
    """Return every exhibit by name: by paper, figures before tables, in the order of their numbers."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_exhibits.items(), key=lambda item: _order(item[0])))


def find(name: str) -> Exhibit:
    """Return an exhibit by its name; refuse an unknown one, with why there is none or those that are near."""
    known = all_exhibits()
    if is_paper(name):
        raise InputError(f"{name!r} is a paper; name one of its exhibits, which `theodolite exhibits` lists.")
    if name not in known:
        raise InputError(why_absent(name, list(known)))
    return known[name]


def is_paper(name: str) -> bool:
    """Say whether a name is that of a paper with exhibits."""
    return any(exhibit.paper == name for exhibit in all_exhibits().values())


def make(found: Exhibit, surveys: Sequence[Surveyed], choice: Choice | None = None) -> Plate:
    """Check that the surveys have what the exhibit needs and that it heeds the choice; make it ready to draw."""
    chosen = choice or Choice()
    if not surveys:
        other = next((f"{need.words}; none is given" for need in found.needs if need.laboratory), "")
        raise InputError(f"{found.name} needs {other or FOLDER}.")
    _check_options(found, chosen)
    kept, left_out = _kept(found, surveys)
    for survey in kept:
        for need in _needs(found):
            if not need.met(survey):
                raise InputError(f"{found.name} needs {need.words}: {need.lack(survey)}.")
        check_population(survey, chosen.population)
        for layer in chosen.layers:
            check_layer(survey, layer)
    plate = found.make(kept, chosen)
    return replace(plate, caption=f"{plate.caption} {left_out}") if left_out else plate


def _kept(found: Exhibit, surveys: Sequence[Surveyed]) -> tuple[list[Surveyed], str]:
    """Return the surveys of a kind that the exhibit is of and a sentence on the others; all where none is."""
    kept: list[Surveyed] = []
    others: dict[str, list[str]] = {}
    for survey, name in zip(surveys, labels(surveys), strict=True):
        whys = [need.left_out(survey) for need in _needs(found) if need.left_out and not need.met(survey)]
        if whys:
            others.setdefault(whys[0], []).append(name)
        else:
            kept.append(survey)
    told = "; ".join(f"{', '.join(names)} ({why})" for why, names in others.items())
    return (kept, f"Left out: {told}." if told else "") if kept else (list(surveys), "")


def _needs(found: Exhibit) -> tuple[Need, ...]:
    """Return what an exhibit needs; one that asks for no other kind of folder wants surveys."""
    return found.needs if any(need.laboratory for need in found.needs) else (SURVEY, *found.needs)


def _check_options(found: Exhibit, choice: Choice) -> None:
    for told in unheeded(found, choice).values():
        raise InputError(f"{found.name} {told}.")


def one_layer(choice: Choice, default: int) -> int:
    """Return the layer asked for, else the default."""
    return choice.layers[0] if choice.layers else default


def _order(name: str) -> tuple[str, bool, list[tuple[int, str]]]:
    paper, _, number = name.partition("/")
    parts = re.findall(r"\d+|\D+", number)
    return (
        paper,
        not number.startswith("fig"),
        [(int(part), "") if part.isdigit() else (-1, part) for part in parts],
    )
