"""The embedding sets of chosen tokens as the exhibits see them: finished numbers, nothing left to compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from theodolite.studies.surveyed import Surveyed

SETS, PLACES = "token_sets", "token_places"
"""Names of the two tables among a survey's, and of how they were made among its facts (SETS)."""


@dataclass(frozen=True, eq=False)
class ChosenSets:
    """A row per chosen token, a row per vector kept, and how they were made.

    `chosen`: unit, text, name, n, log10_n, q, m, v, interval, kept, x and y of the mean.
    `places`: x, y, token (the row in `chosen`), log10_n, in the order of the keys, which mixes the tokens.
    `facts`: layer; population, whose positions count; seed; most; by_hand, the tokens that the user named;
    documents that hold a token, and of how many; share, of the variance of means and origin, on each axis.
    """

    chosen: pd.DataFrame
    places: pd.DataFrame
    facts: dict[str, Any]

    @property
    def layer(self) -> int:
        """The layer that the vectors were taken from."""
        return int(self.facts["layer"])

    @property
    def population(self) -> str:
        """The positions that count; files made before there was a choice have all."""
        return str(self.facts.get("population", "all"))

    def beside(self, survey: Surveyed) -> Surveyed:
        """Return the survey with these sets."""
        tables = survey.tables | {SETS: self.chosen, PLACES: self.places}
        return Surveyed(survey.facts | {SETS: self.facts}, tables, survey.folder)


def has_sets(survey: Surveyed) -> bool:
    """Say whether the survey was read with its token sets, and has some."""
    return SETS in survey.facts


def sets_of(survey: Surveyed) -> ChosenSets:
    """Return the sets of a survey that has them."""
    return ChosenSets(survey.tables[SETS], survey.tables[PLACES], survey.facts[SETS])
