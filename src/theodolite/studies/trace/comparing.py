"""Two sentences compared token by token: how far apart the same tokens are, and from which layer on."""

from __future__ import annotations

from statistics import median
from typing import Any

import pandas as pd

from theodolite.measures.parting import PARTED, nearer, parted_layers
from theodolite.measures.path import cosine, step
from theodolite.studies.trace.alignment import align
from theodolite.studies.trace.reference import DIFFERENT, SAME, Reference, middle_distance, reference_rows
from theodolite.studies.trace.trails import Trails

COMPARED = (
    "stack layer layer_name other position position_other token token_other same special distance relative cosine "
    "nearer_different nearer_same parted"
).split()
PARTINGS = (
    "stack other position position_other token token_other same special parted_at parted_for_good "
    "distance_last cosine_last nearer_different_last nearer_same_last times_others_last"
).split()
ROUNDING = 1e-4  # of the largest distance; the same states in one batch differ by less
LAST = "distance cosine nearer_different nearer_same".split()


def compare(trails: Trails, reference: Reference) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare the first sentence with each other one; return the table of pairs and that of the reference."""
    rows: list[dict[str, Any]] = []
    told = []
    pairs = _pairs(trails)
    for place, layer in enumerate(trails.layers):
        found = reference.at(place)
        told.append(reference_rows(trails.stack, layer.index, found))
        states, middle = trails.at(place), middle_distance(found)
        head = {"stack": trails.stack, "layer": layer.index, "layer_name": layer.name}
        for pair, one, other in pairs:
            distance = float(step(states[one], states[other]))
            shares = {kind: nearer(found[kind]["distance"], distance) for kind in (DIFFERENT, SAME)}
            rows.append(
                head
                | pair
                | {
                    "distance": distance,
                    "relative": distance / middle if middle > 0 else float("nan"),
                    "cosine": float(cosine(states[one], states[other])),
                    "nearer_different": shares[DIFFERENT],
                    "nearer_same": shares[SAME],
                    "parted": shares[DIFFERENT] >= PARTED,
                }
            )
    return pd.DataFrame(rows, columns=COMPARED), pd.concat(told, ignore_index=True)


def partings(compared: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each pair of aligned tokens: where they part first, and where for good; null: never."""
    keys = PARTINGS[: PARTINGS.index("parted_at")]
    rows = []
    for values, pair in compared.groupby(keys, sort=False):
        ordered = pair.sort_values("layer")
        at, for_good = parted_layers(ordered["layer"].to_numpy(), ordered["parted"].to_numpy(bool))
        last = {f"{name}_last": ordered[name].iloc[-1] for name in LAST}
        rows.append(dict(zip(keys, values, strict=True)) | {"parted_at": at, "parted_for_good": for_good} | last)
    for row in rows:
        row["times_others_last"] = _times_others(row, rows)
    return pd.DataFrame(rows, columns=PARTINGS).astype({"parted_at": "Int64", "parted_for_good": "Int64"})


def _times_others(row: dict[str, Any], rows: list[dict[str, Any]]) -> float:
    """Return the last distance over the median of those of the other tokens of text that both sentences share.

    Far above 1 only if this token is moved more than its neighbours, which the other context moves too. What
    stands before the first difference in a causal model cannot move, and is no neighbour.
    """
    others = [
        each["distance_last"]
        for each in rows
        if each is not row and each["same"] and not each["special"] and each["other"] == row["other"]
    ]
    others = [distance for distance in others if distance > ROUNDING * max(others)]
    middle = median(others) if others else 0.0
    return float(row["distance_last"] / middle) if middle > 0 else float("nan")


def _pairs(trails: Trails) -> list[tuple[dict[str, Any], int, int]]:
    """Return the aligned tokens of the first sentence and each other one, with their places in the trails."""
    found: list[tuple[dict[str, Any], int, int]] = []
    first = trails.of(0)
    for number in range(1, int(trails.sentence.max()) + 1):
        second = trails.of(number)
        for one, other, same in align(trails.ids[first].tolist(), trails.ids[second].tolist()):
            here, there = int(first[one]), int(second[other])
            told = {
                "other": number,
                "position": one,
                "position_other": other,
                "token": trails.text[here],
                "token_other": trails.text[there],
                "same": same,
                "special": bool(trails.special[here]),
            }
            found.append((told, here, there))
    return found
