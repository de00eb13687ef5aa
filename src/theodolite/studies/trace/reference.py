"""The reference: how far random tokens are from each other, so that `apart` has a measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.separation import cosines, distances
from theodolite.studies.trace.paths import ordinary
from theodolite.studies.trace.trails import Trails

QUANTILES = {"low": 0.05, "quarter": 0.25, "median": 0.5, "three_quarters": 0.75, "high": 0.95}
DIFFERENT, SAME = "different", "same"
"""Pairs of different tokens; pairs of one token in two contexts."""
SENTENCES = (
    "The farmer repaired the wooden gate before the storm.",
    "Her sister teaches music at a small school near the river.",
    "We missed the last train and walked home in the rain.",
    "Prices rose again in March, although wages did not.",
    "A narrow road leads from the village to the old bridge.",
    "The committee will publish its report on water quality next week.",
    "He put the letter on the table and closed the door.",
    "Most birds leave the island in late autumn.",
    "The engine stopped twice on the way up the hill.",
    "She asked the doctor whether the medicine was safe for children.",
    "The city built a new library where the market used to be.",
    "They painted the kitchen yellow and the hall white.",
    "A young lawyer found the missing page of the contract.",
    "The bread was still warm when the guests arrived.",
    "Light from the window fell on the open book.",
    "The company lost two large orders in one month.",
    "Our neighbours keep bees and sell honey in summer.",
    "The boy was gone before anyone could answer.",
    "Snow covered the field, the fence and the road.",
    "The pilot checked the map and turned to the north.",
    "An old clock stood in the corner of the room.",
    "The judge read the sentence without looking up.",
    "Few people remember who wrote that song.",
    "The dog sat by the fire while the children played.",
)
"""Ordinary sentences, read where the user gives none."""


class Reference:
    """Distances and cosines between pairs of ordinary tokens, layer by layer."""

    def __init__(self, trails: Trails, *, causal: bool) -> None:
        kept = np.flatnonzero(ordinary(trails))
        left, right = np.triu_indices(len(kept), 1)
        left, right = kept[left], kept[right]
        equal = trails.ids[left] == trails.ids[right]
        apart = trails.sentence[left] != trails.sentence[right]
        if causal:  # two tokens after the same words have the same state
            contexts = _left_contexts(trails)
            apart &= contexts[left] != contexts[right]
        self.pairs = {DIFFERENT: ~equal, SAME: equal & apart}
        self._trails, self._kept = trails, kept

    def at(self, place: int) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Return distances, sorted, and cosines by kind of pair, at the layer in this place."""
        vectors = self._trails.at(place)[self._kept]
        above = np.triu_indices(len(vectors), 1)
        found = {"distance": distances(vectors)[above], "cosine": cosines(vectors)[above]}
        return {
            kind: {name: np.sort(values[chosen]) for name, values in found.items()}
            for kind, chosen in self.pairs.items()
        }


def reference_rows(stack: str, layer: int, found: dict[str, dict[str, NDArray[np.float64]]]) -> pd.DataFrame:
    """Return the quantiles of one layer's pairs, a row for each kind; NaN where there is no such pair."""
    rows: list[dict[str, Any]] = []
    middle = middle_distance(found)
    for kind, measured in found.items():
        row: dict[str, Any] = {"stack": stack, "layer": layer, "kind": kind, "pairs": len(measured["distance"])}
        for name, values in measured.items():
            row |= {
                f"{name}_{word}": float(np.quantile(values, share)) if len(values) else np.nan
                for word, share in QUANTILES.items()
            }
        row |= {
            f"relative_{word}": row[f"distance_{word}"] / middle if middle > 0 else np.nan for word in QUANTILES
        }
        rows.append(row)
    return pd.DataFrame(rows)


def middle_distance(found: dict[str, dict[str, NDArray[np.float64]]]) -> float:
    """Return the median distance between different tokens, NaN without any: what `relative` is relative to."""
    values = found[DIFFERENT]["distance"]
    return float(np.median(values)) if len(values) else float("nan")


def _left_contexts(trails: Trails) -> NDArray[np.int64]:
    """Return a number for each token that is equal where all up to it is equal. (tokens,)"""
    known: dict[tuple[int, ...], int] = {}
    found = []
    for number in np.unique(trails.sentence):
        ids = trails.ids[trails.of(int(number))].tolist()
        found += [known.setdefault(tuple(ids[: end + 1]), len(known)) for end in range(len(ids))]
    return np.array(found, dtype=np.int64)
