"""A survey of vectors that someone had already: no text is behind them, so it is told in other words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from theodolite.report.tables import Tables

WORDS = (
    # There is one layer, which is all there is: nothing is the highest of several, and no place has to be named.
    (r"^(highest|largest|strongest) ", ""),
    (r"the tightest trade-off", "the trade-off"),
    (r", most tightly|, fewest to most| at its tightest", ""),
    (r" At no layer do they spread less\.", ""),
    (r"Over all vectors the", "The"),
    (r",? over all vectors", ""),
    (r" at one layer or more:| at one layer:", ":"),
    (r" at this layer\b| with the context|, not by the model", ""),
    (r"(which is of [\d,]+) there", r"\1"),
    # No positions in a text, and groups in place of units and tokens.
    (r"Occurrences of the same unit", "Vectors of the same group"),
    (r"\bmassive (activations|positions)", "massive vectors"),
    (r"\bMassive (activations|positions)", "Massive vectors"),
    (r"\bposition(s?)\b", r"vector\1"),
    (r"\bPosition(s?)\b", r"Vector\1"),
    (r"\bunit types?\b", "groups"),
    (r"\b(unit|token)(s?)\b", r"group\2"),
    (r"\b(Unit|Token)(s?)\b", r"Group\2"),
)
"""Patterns and what stands for them, in this order; the page's script reads them too."""


def of_vectors(tables: Tables) -> bool:
    """Say whether a survey is of vectors alone: its facts tell that there was no model."""
    return "model" in tables.facts and not tables.facts["model"]


def all_of_vectors(surveys: Sequence[Tables]) -> bool:
    """Say whether there are surveys and all are of vectors: then a whole page is told so."""
    return len(surveys) > 0 and all(map(of_vectors, surveys))


def told_of_vectors(text: str) -> str:
    """Return our own words on positions and units as words on vectors and groups; not for names from outside.

    >>> told_of_vectors("Two positions have an average cosine of 0.9 over all vectors.")
    'Two vectors have an average cosine of 0.9.'
    >>> told_of_vectors("Units at the extremes, 3 unit types"), told_of_vectors("highest mean cosine")
    ('Groups at the extremes, 3 groups', 'mean cosine')
    """
    for pattern, instead in WORDS:
        text = re.sub(pattern, instead, text)
    return text


def for_script() -> list[tuple[str, str]]:
    """Return the words as the page's script takes them: `$1` for a group."""
    return [(pattern, re.sub(r"\\(\d)", r"$\1", instead)) for pattern, instead in WORDS]
