"""contexts.parquet: a few occurrences of each unit with the text around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.columns import column_names
from theodolite.sources.text.contexts import ContextReader, Occurrence
from theodolite.text import encodable

COLUMNS = column_names("contexts")
TYPES = {"key": "int64", "document": "int64", "window": "int64", "position": "int64"}
PER_UNIT = 3
"""Occurrences kept of each unit: those with the smallest keys."""
OF_SAMPLE = 4096
"""Occurrences kept because their keys are the smallest of all, as those of the sample are."""


def collect_contexts(
    reader: ContextReader, shards: Iterable[tuple[int, Sequence[tuple[int, str]]]]
) -> pd.DataFrame:
    """Return the contexts of all units in the documents of shards. Memory: the table and one shard.

    Text is read only at positions that are kept so far, fewer with every shard.
    """
    units = keys = np.empty(0, dtype=np.int64)
    kept: list[Occurrence] = []
    for _, documents in shards:
        batches = reader.prepare(documents)
        units = np.concatenate([units, *(batch.places.unit.numpy() for batch in batches)])
        keys = np.concatenate([keys, *(batch.places.key.numpy() for batch in batches)])
        chosen = _choose(units, keys)
        ends = np.cumsum([len(kept), *(batch.positions for batch in batches)])
        known, *new = np.split(chosen, ends[:-1])
        kept = [one for one, taken in zip(kept, known.tolist(), strict=True) if taken]
        for batch, rows in zip(batches, new, strict=True):
            kept += reader.read(batch, np.flatnonzero(rows))
        units, keys = units[chosen], keys[chosen]
    return keep_smallest([contexts_table(kept)])


def contexts_table(occurrences: Iterable[Occurrence] = ()) -> pd.DataFrame:
    """Return occurrences as a table."""
    table = pd.DataFrame(list(occurrences), columns=COLUMNS).astype(TYPES)
    for column in set(COLUMNS) - set(TYPES):
        table[column] = table[column].astype(object).map(encodable)
    return table


def keep_smallest(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows with the smallest keys of each unit and of all, sorted by unit and key.

    The result for a whole is that of the results for its parts, in any order.
    """
    joined = pd.concat(tables, ignore_index=True)
    units = pd.factorize(joined["unit"])[0]
    kept = joined[_choose(units, joined["key"].to_numpy())]
    return kept.sort_values(["unit", "key"], ignore_index=True)


def _choose(units: NDArray[np.integer], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows have one of the smallest keys of their unit, or of all. (rows,)"""
    order = np.lexsort((keys, units))
    ordered = units[order]
    start = np.searchsorted(ordered, ordered)  # the first row of the same unit
    chosen = np.zeros(len(units), dtype=bool)
    chosen[order] = np.arange(len(order)) - start < PER_UNIT
    chosen[np.argsort(keys, kind="stable")[:OF_SAMPLE]] = True
    return chosen
