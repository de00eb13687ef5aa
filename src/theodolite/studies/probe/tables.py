"""The tables of the laboratory: every probe at every place, and what it makes of the displayed words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from theodolite.studies.probe.chosen import Chosen
from theodolite.studies.probe.classifiers import PROBES, Vectors, fit
from theodolite.studies.probe.scoring import (
    CLASSES,
    CONTROL,
    confusion_rows,
    control_splits,
    cross_validated,
    fold_rows,
    real_splits,
    summary,
)
from theodolite.studies.probe.spelling import Spelled
from theodolite.surveys.listener import Listener


class Place(NamedTuple):
    """Where vectors are taken; the input table has no number."""

    layer: int | None
    layer_name: str
    x: Vectors


def scored_tables(
    chosen: Chosen,
    places: Sequence[Place],
    row_of: Mapping[int, int],
    *,
    folds: int,
    seed: int,
    listener: Listener,
) -> dict[str, pd.DataFrame]:
    """Score every probe at every place; folds and shuffled labels are the same for all.

    `row_of` says which row of a place's vectors is a token's.
    """
    rows: dict[str, list[dict[str, Any]]] = {"probes": [], "folds": [], "confusions": [], "confidence": []}
    known = [word for word in chosen.shown if word.token is not None]
    at, seen = _rows(chosen.probed, row_of), _rows(known, row_of)
    for place in places:
        for probe in PROBES:
            listener.say(f"{place.layer_name}: {probe}")
            head = {"layer": place.layer, "layer_name": place.layer_name, "probe": probe}
            found = _one(probe, chosen, known, place.x[at], place.x[seen], folds=folds, seed=seed)
            if early := found["probes"][0]["unconverged"]:
                listener.warn(f"{place.layer_name}, {probe}: {early} of {2 * folds} fits stopped unsettled.")
            for name, more in found.items():
                rows[name] += [head | row for row in more]
    tables = {name: pd.DataFrame(found) for name, found in rows.items() if found}
    return {name: table.astype({"layer": "Int64"}) for name, table in tables.items()}


def _one(
    probe: str, chosen: Chosen, known: Sequence[Spelled], x: Vectors, shown: Vectors, *, folds: int, seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Return one probe's rows of every table. x: (words, dim), shown: (known, dim)"""
    real = cross_validated(probe, x, real_splits(chosen.labels, folds, seed), shown, seed=seed)
    control = cross_validated(probe, x, control_splits(chosen.labels, folds, seed), shown[:0], seed=seed)
    row = summary(real, control, len(chosen.classes))
    sure = fit(probe, x, chosen.labels, seed).confidence(shown) if len(shown) else np.empty((0, 0))
    spread = real.confidence.std(axis=0, ddof=1)
    return {
        "probes": [row | {"folds": folds, "words": len(x), "dim": x.shape[1]}],
        "folds": [*fold_rows(CLASSES, real), *fold_rows(CONTROL, control)],
        "confusions": confusion_rows(real, chosen.classes),
        "confidence": _confidence_rows(chosen, known, sure, spread),
    }


def _rows(words: Sequence[Spelled], row_of: Mapping[int, int]) -> list[int]:
    return [row_of[word.token] for word in words if word.token is not None]


def _confidence_rows(
    chosen: Chosen, known: Sequence[Spelled], sure: Vectors, spread: Vectors
) -> list[dict[str, Any]]:
    """Return a row for every displayed word and class; one that is not one token is null with the reason."""
    at = {word.word: row for row, word in enumerate(known)}
    own: dict[str, list[str]] = {}
    for word, label in zip(chosen.table["word"], chosen.table["label"], strict=True):
        own.setdefault(word, []).append(label)
    return [
        {
            "word": word.word,
            "classes": ", ".join(dict.fromkeys(own.get(word.word, []))),
            "label": label,
            "confidence": float(sure[at[word.word], number]) if word.word in at else np.nan,
            "confidence_sd": float(spread[at[word.word], number]) if word.word in at else np.nan,
            "undefined": word.reason,
        }
        for word in chosen.shown
        for number, label in enumerate(chosen.classes)
    ]
