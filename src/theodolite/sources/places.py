"""Places: from where a row stands to its group, its key in the sample and its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.batch import GROUPS, Places
from theodolite.hashing import mix, mix_on

GROUP_SALT = 0x67726F7570  # keeps a document's group independent of its rows' keys


class Spot(NamedTuple):
    """The rows of one window."""

    document: int
    window: int
    unit: NDArray[np.int64]  # (rows,)
    position: NDArray[np.int64]  # (rows,)
    context: NDArray[np.uint64]  # (rows,)


def places_of(spots: Sequence[Spot], corpus_key: int) -> Places:
    """Join windows into the places of one batch."""
    sizes = [len(spot.unit) for spot in spots]
    return places(
        corpus_key,
        document=np.repeat(np.array([spot.document for spot in spots], dtype=np.uint64), sizes),
        window=np.repeat(np.array([spot.window for spot in spots], dtype=np.uint64), sizes),
        position=np.concatenate([spot.position for spot in spots]),
        unit=np.concatenate([spot.unit for spot in spots]),
        context=np.concatenate([spot.context for spot in spots]),
    )


def places(
    corpus_key: int,
    *,
    document: NDArray[np.integer],
    window: NDArray[np.integer] | int,
    position: NDArray[np.int64],
    unit: NDArray[np.int64],
    context: NDArray[np.uint64],
    ordered: bool = True,
    of: NDArray[np.int64] | None = None,
) -> Places:
    """Make the places of rows, all arrays (rows,). The hashes depend on where a row stands and on nothing else.

    Where positions are not `ordered`, as in a picture, none is a first one. With `of` (rows,), documents and
    windows are (windows,), and it says which of them each row is of: what its rows share is hashed once.
    """
    shared = mix(corpus_key, document, window)
    group = (mix(GROUP_SALT, corpus_key, document) % np.uint64(GROUPS)).astype(np.int64)
    of_window = window_key(document, window)
    if of is not None:
        shared, group, of_window = shared[of], group[of], of_window[of]
    key = mix_on(shared, position) >> np.uint64(1)
    of_window = np.broadcast_to(of_window, key.shape)
    return Places(
        unit=torch.from_numpy(unit),
        group=torch.from_numpy(group),
        first=torch.from_numpy((position == 0) & ordered),
        key=torch.from_numpy(key.astype(np.int64)),
        context=torch.from_numpy(context.view(np.int64)),
        window=torch.from_numpy(of_window.astype(np.int64)),
    )


def window_key(document: NDArray[np.integer] | int, window: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """Return what rows of one window share in `Places.window`."""
    return mix(document, window) >> np.uint64(1)
