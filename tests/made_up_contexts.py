"""Made-up surveys that also tell cosines: over all pairs, and over pairs of occurrences of one unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tests.made_up import SPECIAL, MadeUp

from theodolite.studies.surveyed import Surveyed

Array = NDArray[np.float64]
COSINE_ERROR, SIMILARITY_ERROR = 0.03, 0.05


def pairs_cosine(x: Array) -> float:
    """The mean cosine over pairs of distinct rows, by definition."""
    directions = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = directions @ directions.T
    return float(cosines[~np.eye(len(x), dtype=bool)].mean())


def mean_similarity(vectors: dict[str, Array]) -> float:
    """Self-similarity of units that occur five times and are not special, each counting once, by definition."""
    found = [pairs_cosine(x) for unit, x in vectors.items() if len(x) >= 5 and unit not in SPECIAL]
    return float(np.mean(found)) if found else float("nan")


def with_contexts(made: MadeUp) -> Surveyed:
    """Return the survey with the columns that `--contextuality` adds."""
    layers = made.survey.layers
    vectors = [made.vectors[key] for key in zip(layers["layer"], layers["population"], strict=True)]
    told = layers.assign(
        mean_cosine=[pairs_cosine(np.concatenate(list(each.values()))) for each in vectors],
        mean_cosine_se=COSINE_ERROR,
        self_similarity=[mean_similarity(each) for each in vectors],
        self_similarity_se=SIMILARITY_ERROR,
    )
    return Surveyed(made.survey.facts, made.survey.tables | {"layers": told})
