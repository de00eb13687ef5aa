"""The options of an exhibit: population, variant of M and V, frequency filter, special units, layers, axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from theodolite.errors import InputError, nearest
from theodolite.studies.survey_data import SurveyData
from theodolite.text import POPULATION_LABELS

VARIANTS = ("biased", "unbiased")
FILTERS = ("frequent", "all")
SPECIALS = ("auto", "kept", "left-out")
DEPTHS = ("layer", "normalised")
STEPS = ("linear", "log")
AUTO = "auto"
"""As a population: that of `default_population`."""
SINKS = "without-sinks"
MIN_DOCUMENTS_FOR_SPECIALS = 100_000
"""From this number of documents on, the frequency filter removes the special units by itself, as in the paper."""


@dataclass(frozen=True)
class Choice:
    """What to draw. With `filter` None or empty `layers`, an exhibit uses the choice of its paper.

    `population`: "auto" is that of `default_population`.
    `variant`: "biased" is M and V as in the paper; "unbiased" is M - V/(n - 1) and n V/(n - 1).
    `specials`: "auto" excludes special units from fits and sums for corpora of fewer than 100,000 documents.
    `depth`: the axis of layers, "layer" (numbers) or "normalised" (0 at the embeddings, 1 at the last block).
    `steps`: the scale of an axis of training steps; None is "log" if they span more than a factor of 10^1.5.
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

    def for_surveys(self, surveys: Sequence[SurveyData], known: Sequence[str] = ()) -> Choice:
        """Return the same choice with the default population of these surveys, if it is "auto".

        `known` are the populations that an exhibit has, if not those of the surveys.
        """
        if self.population != AUTO:
            return self
        found = default_population([survey.facts for survey in surveys])
        return replace(self, population=found if not known or found in known else known[0])

    def with_filter(self, default: str = "frequent") -> Choice:
        """Return the same choice with `filter` set to the default if it is None."""
        return replace(self, filter=self.filter or default)

    def for_description(self) -> Choice:
        """Return the choice for descriptive figures: by default all units, including special ones."""
        return replace(self.with_filter("all"), specials="kept" if self.specials == "auto" else self.specials)

    def includes_specials(self, survey: SurveyData) -> bool:
        """Return whether special units of this survey are included in fits and sums."""
        if self.specials == "auto":
            return survey.documents >= MIN_DOCUMENTS_FOR_SPECIALS
        return self.specials == "kept"


def default_population(facts: Iterable[Mapping[str, Any]]) -> str:
    """Return the population that figures, tables and the report show by default, from the facts of surveys.

    In many decoders a few positions, such as the first, are so long that they determine every sum and every fit.
    So it is `without-sinks` if one of the models is causal and all surveys have that population; otherwise `all`.

    >>> decoder = {"model": {"causal": True}, "populations": ["all", "without-sinks"]}
    >>> default_population([decoder]), default_population([decoder | {"model": {"causal": False}}])
    ('without-sinks', 'all')
    """
    every = list(facts)
    causal = any((each.get("model") or {}).get("causal") for each in every)
    available = all(
        SINKS in (each.get("populations") or ()) and SINKS not in (each.get("lost") or {}) for each in every
    )
    return SINKS if causal and available else "all"


def check_population(survey: SurveyData, population: str) -> None:
    """Reject a population that the survey does not have; the error names the command that computes it."""
    known = list(survey.facts["populations"])
    if population in known:
        return
    hint = (
        f" To compute it: `{survey.command('--populations', f'all,{population}')}`."
        if population in POPULATION_LABELS
        else nearest(population, known)
    )
    raise InputError(f"--population {population!r}: the survey of {survey.model} has {', '.join(known)}.{hint}")


def _check(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{option} {value!r} is not one of {', '.join(known)}.{nearest(value, list(known))}")
