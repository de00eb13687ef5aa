"""Comparing two sentences token by token, against the distances between random tokens."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.laboratories.groups import cosines, distances
from theodolite.measures.laboratories.paths import PARTED_SHARE, cosine, parted_layers, share_nearer, step
from theodolite.studies.trace.token_paths import TokenPaths, is_ordinary

QUANTILES = {"low": 0.05, "quarter": 0.25, "median": 0.5, "three_quarters": 0.75, "high": 0.95}
DIFFERENT, SAME = "different", "same"
"""Kinds of pairs: different tokens; the same token in two contexts."""
COMPARED_COLUMNS = (
    "stack layer layer_name other position position_other token token_other same special distance relative cosine "
    "nearer_different nearer_same parted"
).split()
PARTING_COLUMNS = (
    "stack other position position_other token token_other same special parted_at parted_for_good "
    "distance_last cosine_last nearer_different_last nearer_same_last times_others_last"
).split()
LAST = "distance cosine nearer_different nearer_same".split()
ROUNDING = 1e-4  # share of the largest distance; equal states in one batch differ by less


class AlignedPair(NamedTuple):
    """A position in each of two sentences, and whether both hold the same token."""

    one: int
    other: int
    same: bool


def align(one: Sequence[int], other: Sequence[int]) -> list[AlignedPair]:
    """Align two sentences by token ids: equal runs, and replacements by the same number of tokens.

    >>> [tuple(pair) for pair in align([1, 2, 3, 4], [1, 9, 3, 5, 6])]
    [(0, 0, True), (1, 1, False), (2, 2, True)]
    """
    found = []
    for tag, start, stop, begin, end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and stop - start == end - begin):
            pairs = zip(range(start, stop), range(begin, end), strict=True)
            found += [AlignedPair(left, right, tag == "equal") for left, right in pairs]
    return found


REFERENCE_SENTENCES = (
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
"""Ordinary sentences, used by default."""


class Reference:
    """Distances and cosines between pairs of ordinary tokens, per layer."""

    def __init__(self, paths: TokenPaths, *, causal: bool) -> None:
        kept = np.flatnonzero(is_ordinary(paths))
        left, right = np.triu_indices(len(kept), 1)
        left, right = kept[left], kept[right]
        equal = paths.ids[left] == paths.ids[right]
        apart = paths.sentence[left] != paths.sentence[right]
        if causal:  # two equal tokens with the same left context have the same state
            contexts = _left_contexts(paths)
            apart &= contexts[left] != contexts[right]
        self.pairs = {DIFFERENT: ~equal, SAME: equal & apart}
        self._paths, self._kept = paths, kept

    def at(self, place: int) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Return sorted distances and cosines by kind of pair, at the layer with this index."""
        vectors = self._paths.at(place)[self._kept]
        above = np.triu_indices(len(vectors), 1)
        found = {"distance": distances(vectors)[above], "cosine": cosines(vectors)[above]}
        return {
            kind: {name: np.sort(values[chosen]) for name, values in found.items()}
            for kind, chosen in self.pairs.items()
        }


def make_reference_rows(stack: str, layer: int, found: dict[str, dict[str, NDArray[np.float64]]]) -> pd.DataFrame:
    """Return the quantiles of one layer, one row per kind of pair; NaN if there is no such pair."""
    rows: list[dict[str, Any]] = []
    middle = median_distance(found)
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


def median_distance(found: dict[str, dict[str, NDArray[np.float64]]]) -> float:
    """Return the median distance between different tokens, the unit of `relative`; NaN without pairs."""
    values = found[DIFFERENT]["distance"]
    return float(np.median(values)) if len(values) else float("nan")


def _left_contexts(paths: TokenPaths) -> NDArray[np.int64]:
    """Return a number per token; two tokens have the same number if they and all tokens before them are equal."""
    known: dict[tuple[int, ...], int] = {}
    found = []
    for number in np.unique(paths.sentence):
        ids = paths.ids[paths.indices(int(number))].tolist()
        found += [known.setdefault(tuple(ids[: end + 1]), len(known)) for end in range(len(ids))]
    return np.array(found, dtype=np.int64)


def compare_sentences(paths: TokenPaths, reference: Reference) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare the first sentence with each other sentence; return the tables `compared` and `reference`."""
    rows: list[dict[str, Any]] = []
    reference_rows = []
    pairs = _align_sentences(paths)
    for place, layer in enumerate(paths.layers):
        found = reference.at(place)
        reference_rows.append(make_reference_rows(paths.stack, layer.index, found))
        states, middle = paths.at(place), median_distance(found)
        head = {"stack": paths.stack, "layer": layer.index, "layer_name": layer.name}
        for pair, one, other in pairs:
            distance = float(step(states[one], states[other]))
            shares = {kind: share_nearer(found[kind]["distance"], distance) for kind in (DIFFERENT, SAME)}
            rows.append(
                head
                | pair
                | {
                    "distance": distance,
                    "relative": distance / middle if middle > 0 else float("nan"),
                    "cosine": float(cosine(states[one], states[other])),
                    "nearer_different": shares[DIFFERENT],
                    "nearer_same": shares[SAME],
                    "parted": shares[DIFFERENT] >= PARTED_SHARE,
                }
            )
    return pd.DataFrame(rows, columns=COMPARED_COLUMNS), pd.concat(reference_rows, ignore_index=True)


def make_partings(compared: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of aligned tokens: the layers where they diverge first, and where for good.

    Both are null if they never diverge.
    """
    keys = PARTING_COLUMNS[: PARTING_COLUMNS.index("parted_at")]
    rows = []
    for values, pair in compared.groupby(keys, sort=False):
        ordered = pair.sort_values("layer")
        at, for_good = parted_layers(ordered["layer"].to_numpy(), ordered["parted"].to_numpy(bool))
        last = {f"{name}_last": ordered[name].iloc[-1] for name in LAST}
        rows.append(dict(zip(keys, values, strict=True)) | {"parted_at": at, "parted_for_good": for_good} | last)
    for row in rows:
        row["times_others_last"] = _relative_to_others(row, rows)
    return pd.DataFrame(rows, columns=PARTING_COLUMNS).astype({"parted_at": "Int64", "parted_for_good": "Int64"})


def _relative_to_others(row: dict[str, Any], rows: list[dict[str, Any]]) -> float:
    """Return the distance at the last layer over the median distance of the other shared, ordinary tokens.

    It is far above 1 only if the other context moves this token more than its neighbours. In a causal model,
    tokens before the first difference cannot move and are excluded.
    """
    others = [
        each["distance_last"]
        for each in rows
        if each is not row and each["same"] and not each["special"] and each["other"] == row["other"]
    ]
    others = [distance for distance in others if distance > ROUNDING * max(others)]
    middle = median(others) if others else 0.0
    return float(row["distance_last"] / middle) if middle > 0 else float("nan")


def _align_sentences(paths: TokenPaths) -> list[tuple[dict[str, Any], int, int]]:
    """Return the aligned tokens of the first sentence and each other sentence, with their indices in the paths."""
    found: list[tuple[dict[str, Any], int, int]] = []
    first = paths.indices(0)
    for number in range(1, int(paths.sentence.max()) + 1):
        second = paths.indices(number)
        for one, other, same in align(paths.ids[first].tolist(), paths.ids[second].tolist()):
            index, other_index = int(first[one]), int(second[other])
            pair = {
                "other": number,
                "position": one,
                "position_other": other,
                "token": paths.text[index],
                "token_other": paths.text[other_index],
                "same": same,
                "special": bool(paths.special[index]),
            }
            found.append((pair, index, other_index))
    return found
