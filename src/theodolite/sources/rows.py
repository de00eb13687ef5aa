"""Rows of a batch: the group, the sample key and the context hash of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.batch import GROUPS, Places
from theodolite.hashing import mix, mix_on
from theodolite.sources.units import Units

GROUP_SALT = 0x67726F7570  # keeps the group of a document independent of the keys of its rows


class WindowRows(NamedTuple):
    """The rows of one window."""

    document: int
    window: int
    unit: NDArray[np.int64]  # (rows,)
    position: NDArray[np.int64]  # (rows,)
    context: NDArray[np.uint64]  # (rows,)
    by: int | None = None  # the group of the document by a field of the corpus


def locate_windows(windows: Sequence[WindowRows], corpus_key: int, units: Units | None = None) -> Places:
    """Return the places of the rows of several windows, concatenated."""
    sizes = [len(window.unit) for window in windows]
    return locate_rows(
        corpus_key,
        document=np.repeat(np.array([window.document for window in windows], dtype=np.uint64), sizes),
        window=np.repeat(np.array([window.window for window in windows], dtype=np.uint64), sizes),
        position=np.concatenate([window.position for window in windows]),
        unit=np.concatenate([window.unit for window in windows]),
        context=np.concatenate([window.context for window in windows]),
        units=units,
        by=None if windows[0].by is None else np.repeat([window.by or 0 for window in windows], sizes),
    )


def locate_rows(
    corpus_key: int,
    *,
    document: NDArray[np.integer],
    window: NDArray[np.integer] | int,
    position: NDArray[np.int64],
    unit: NDArray[np.int64],
    context: NDArray[np.uint64],
    ordered: bool = True,
    of: NDArray[np.int64] | None = None,
    units: Units | None = None,
    by: NDArray[np.int64] | None = None,
) -> Places:
    """Return the places of rows, all arrays (rows,). The hashes depend only on the document, window and position.

    If positions are not `ordered`, as in a picture, none is a first position. With `of` (rows,), documents,
    windows and `by` are (windows,), and `of` is the window of each row: the common part of its rows is hashed
    once. `units` that are numbered as they occur are hashed by their keys. `by` are the groups of the documents by
    a field of the corpus.
    """
    shared = mix(corpus_key, document, window)
    group = (mix(GROUP_SALT, corpus_key, document) % np.uint64(GROUPS)).astype(np.int64)
    of_window = hash_window(document, window)
    if of is not None:
        shared, group, of_window = shared[of], group[of], of_window[of]
        by = None if by is None else by[of]
    key = mix_on(shared, position) >> np.uint64(1)
    of_window = np.broadcast_to(of_window, key.shape)
    hashes = units.hash_keys(unit) if units is not None and units.open else None
    return Places(
        unit=torch.from_numpy(unit),
        group=torch.from_numpy(group),
        first=torch.from_numpy((position == 0) & ordered),
        key=torch.from_numpy(key.astype(np.int64)),
        context=torch.from_numpy(context.view(np.int64)),
        window=torch.from_numpy(of_window.astype(np.int64)),
        unit_hash=None if hashes is None else torch.from_numpy(hashes.view(np.int64)),
        by=None if by is None else torch.from_numpy(by.astype(np.int64)),
        position=torch.from_numpy(position) if ordered else None,
    )


def hash_window(document: NDArray[np.integer] | int, window: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """Return the value of `Places.window` for the rows of a window."""
    return mix(document, window) >> np.uint64(1)
