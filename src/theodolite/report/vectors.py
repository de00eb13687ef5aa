"""Wording for surveys of given vectors, which have no model, no text, one layer, and groups in place of units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from theodolite.report.tables import Tables

REWORDINGS = (
    # There is one layer only: nothing is the highest of several layers, and no layer has to be named.
    (r"^(highest|largest|strongest) ", ""),
    (r"The fit is tightest over all vectors: ", "The fit has "),
    (r", lowest to highest| No layer has a negative slope\.", ""),
    (r"Over all vectors the", "The"),
    (r",? over all vectors", ""),
    (r" at one or more layers:| at one layer:", ":"),
    (r" at this layer\b| with the context|, not by the model", ""),
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
"""Patterns and their replacements, applied in this order; the page's script uses them too."""


def is_vector_survey(tables: Tables) -> bool:
    """Return whether a survey is of given vectors: its facts state that there was no model."""
    return "model" in tables.facts and not tables.facts["model"]


def are_vector_surveys(surveys: Sequence[Tables]) -> bool:
    """Return whether all surveys of a page are of given vectors."""
    return len(surveys) > 0 and all(map(is_vector_survey, surveys))


def hide_layer_name(tables: Tables) -> Tables:
    """Return a survey of vectors with one layer under a name that sentences omit; other surveys unchanged."""
    if not is_vector_survey(tables) or tables.layers.get("layer", pd.Series()).nunique() != 1:
        return tables
    return replace(tables, layers=tables.layers.assign(layer_name="vectors"))


def reword_for_vectors(text: str) -> str:
    """Return a sentence on positions and units as a sentence on vectors and groups. Do not pass names of users.

    >>> reword_for_vectors("The average cosine of two positions is 0.9 over all vectors.")
    'The average cosine of two vectors is 0.9.'
    >>> reword_for_vectors("Units at the extremes, 3 unit types"), reword_for_vectors("highest mean cosine")
    ('Groups at the extremes, 3 groups', 'mean cosine')
    """
    for pattern, replacement in REWORDINGS:
        text = re.sub(pattern, replacement, text)
    return text


def rewording_rules() -> list[tuple[str, str]]:
    """Return the rules in the syntax of JavaScript: `$1` for a group."""
    return [(pattern, re.sub(r"\\(\d)", r"$\1", replacement)) for pattern, replacement in REWORDINGS]
