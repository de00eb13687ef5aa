"""Layout: from what a module gives out to rows, one vector a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.errors import InputError

MAPS = ("flat", "places")
"""A map of channels x height x width is one vector a picture, as in Godey et al. (2023), or one a place."""


class Laid(NamedTuple):
    """Rows of a batch's items. (rows, dim), and (rows,) each for the rest."""

    rows: Tensor
    item: Tensor  # which item of the batch
    position: Tensor  # within its item
    ordered: bool  # whether position 0 is a first one, and not merely a corner


def laid_out(states: Tensor, *, flat: bool, counts: Sequence[int] | None = None) -> Laid:
    """Return the rows of (items, positions, dim), (items, channels, height, width) or (items, dim).

    `counts` says how many of each item's positions count; the rest is padding.

    >>> [tuple(laid_out(torch.zeros(2, 3, 4, 5), flat=flat).rows.shape) for flat in (True, False)]
    [(2, 60), (40, 3)]
    """
    items = states.shape[0]
    if (states.dim() == 4 and flat) or states.dim() == 2:
        return Laid(states.flatten(1), torch.arange(items), torch.zeros(items, dtype=torch.int64), False)
    if states.dim() == 4:
        states = states.flatten(2).transpose(1, 2)
        ordered = False
    elif states.dim() == 3:
        ordered = True
    else:
        raise InputError(f"States of the shape {tuple(states.shape)} cannot be read as vectors of positions.")
    width = states.shape[1]
    position = torch.arange(width).repeat(items)
    item = torch.arange(items).repeat_interleave(width)
    rows = states.flatten(0, 1)
    if counts is not None:
        kept = position < torch.tensor(list(counts))[item]
        rows, item, position = rows[kept.to(rows.device)], item[kept], position[kept]
    return Laid(rows, item, position, ordered)
