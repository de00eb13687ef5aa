"""Which numbers a figure is made of: population, variant of M and V, frequency filter, special units."""

from __future__ import annotations

from dataclasses import dataclass, replace

from theodolite.errors import InputError, nearest
from theodolite.studies.surveyed import Surveyed

VARIANTS = ("biased", "unbiased")
FILTERS = ("frequent", "all")
SPECIALS = ("auto", "kept", "left-out")
DEPTHS = ("layer", "normalised")
STEPS = ("linear", "log")
MANY_DOCUMENTS = 100_000
"""From so many documents on, the frequency filter itself removes the special units, as it did in the paper."""


@dataclass(frozen=True)
class Choice:
    """What to draw. `filter` None is what the paper did in that exhibit; no layers: the paper's choice of them.

    `biased` are the paper's M and V; `unbiased` are M - V/(n - 1) and n V/(n - 1).
    `auto` leaves special units out of fits and sums where there are fewer than 100,000 documents.
    `depth` is what stands on the axis of layers: their number, or 0 at the embeddings to 1 at the last block.
    `steps` is the scale of an axis of training steps; None is log where they span more than a decade and a half.
    """

    population: str = "all"
    variant: str = "biased"
    filter: str | None = None
    specials: str = "auto"
    layers: tuple[int, ...] = ()
    depth: str | None = None
    steps: str | None = None

    def __post_init__(self) -> None:
        _check("--variant", self.variant, VARIANTS)
        _check("--specials", self.specials, SPECIALS)
        if self.filter is not None:
            _check("--filter", self.filter, FILTERS)
        if self.depth is not None:
            _check("--depth", self.depth, DEPTHS)
        if self.steps is not None:
            _check("--steps", self.steps, STEPS)

    def filtered(self, default: str = "frequent") -> Choice:
        """Return the same choice with the filter filled in."""
        return replace(self, filter=self.filter or default)

    def described(self) -> Choice:
        """Return the choice for what fits nothing: all units, special ones too, unless others are asked for."""
        return replace(self.filtered("all"), specials="kept" if self.specials == "auto" else self.specials)

    def kept(self, survey: Surveyed) -> bool:
        """Say whether this survey's special units are in fits and sums."""
        if self.specials == "auto":
            return survey.documents >= MANY_DOCUMENTS
        return self.specials == "kept"


def check_population(survey: Surveyed, population: str) -> None:
    """Refuse a population that the survey does not tell, naming the command that would."""
    known = list(survey.facts["populations"])
    if population in known:
        return
    possible = ("all", "without-first", "without-massive")
    way = (
        f" `{survey.command('--populations', f'all,{population}')}` would tell it."
        if population in possible
        else ""
    )
    raise InputError(
        f"--population {population!r}: the survey of {survey.model} has {', '.join(known)}.{way}"
        f"{'' if way else nearest(population, known)}"
    )


def _check(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{option} {value!r} is not one of {', '.join(known)}.{nearest(value, list(known))}")
