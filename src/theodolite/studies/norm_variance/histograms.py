"""Histograms: frequencies of units, lengths of documents, and Q, M, V of units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.points import points
from theodolite.studies.surveyed import Surveyed

Array = NDArray[np.float64]
STEP = 0.25
"""Of log10 n: finer bins would leave gaps between 1, 2 and 3 occurrences."""
BINS = 40
LONGEST = 256
"""Words from which on a survey counts documents together."""
FENCE = 4.0
"""The last bin of a histogram of Q, M or V holds all that is further than so many quartile ranges above the upper
quartile: a few massive units would flatten the rest."""


def frequencies(survey: Surveyed, choice: Choice) -> pd.DataFrame:
    """Return a histogram of log10 n over the units used: low, high, count."""
    table = points(survey, next(iter(survey.layer_names)), choice.described())
    logs = table.loc[table["used"], "log10_n"].to_numpy(np.float64)
    top = STEP * (np.floor(logs.max(initial=0.0) / STEP) + 1)
    edges = np.arange(0, top + STEP / 2, STEP)
    return _histogram(logs, edges)


def lengths(survey: Surveyed) -> pd.DataFrame:
    """Return how many documents have each number of words: words, documents. The last may hold longer ones.

    The survey keeps a list, entry k for k words, or an object from k to documents.
    """
    found = survey.facts["corpus"].get("words_histogram")
    if not found:
        raise InputError(
            f"The survey of {survey.model} does not record how many words its documents have; "
            f"`{survey.command()}` with this version would."
        )
    pairs = found.items() if isinstance(found, Mapping) else enumerate(found)
    counts = {int(words): int(documents) for words, documents in pairs}
    every = range(max(counts) + 1)
    return pd.DataFrame({"words": every, "documents": [counts.get(words, 0) for words in every]})


def histogram(survey: Surveyed, layer: int, choice: Choice, *, bins: int = BINS) -> pd.DataFrame:
    """Return histograms of Q, M and V over the units used, on common bins: quantity, low, high, count, beyond.

    `beyond` says how many of the last bin's units lie above its upper edge.
    """
    table = points(survey, layer, choice.described())
    used = table[table["used"]]
    top = max(_fence(used[name].to_numpy(np.float64)) for name in "qmv") if len(used) else 0.0
    bottom = min(0.0, float(used["m"].min())) if len(used) else 0.0
    edges = np.linspace(bottom, top if top > bottom else bottom + 1.0, bins + 1)
    parts = []
    for name in "qmv":
        values = used[name].to_numpy(np.float64)
        part = _histogram(np.minimum(values, edges[-1]), edges)
        beyond = [0] * (len(part) - 1) + [int((values > edges[-1]).sum())]
        parts.append(part.assign(quantity=name, beyond=beyond))
    return pd.concat(parts, ignore_index=True)[["quantity", "low", "high", "count", "beyond"]]


def _fence(values: Array) -> float:
    lower, upper = np.quantile(values, [0.25, 0.75])
    return min(float(values.max()), float(upper + FENCE * (upper - lower)))


def _histogram(values: Array, edges: Array) -> pd.DataFrame:
    counts, _ = np.histogram(values, edges)
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "count": counts})
