"""Which vectors of a sample stand for themselves, and which only repeat another."""

import torch
from torch import Tensor

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROWS = 1024
"""Rows hashed at a time, so that their 64-bit copies stay small."""

_GPU_ROWS = 2**16


def distinct(vectors: Tensor, contexts: Tensor | None = None) -> Tensor:
    """Return the rows, ascending, of the first vector of each kind: (distinct,) int64.

    Vectors are of one kind when they are equal (0.0 equals -0.0) or, with `contexts` (vectors,), when their
    contexts are: in a causal model states of equal left context differ by rounding alone. One sort of the
    rows' 64-bit hashes; rows of equal hash are compared, so a collision costs time and never an answer.

    >>> distinct(torch.tensor([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0]])).tolist()
    [0, 1]
    >>> distinct(torch.tensor([[0.0], [2.0], [2.1]]), torch.tensor([7, 8, 8])).tolist()
    [0, 1]
    """
    if contexts is None:
        return _first_of_each(_row_keys(vectors))
    rows = _first_of_each(contexts.to(vectors.device))
    return rows[_first_of_each(_row_keys(vectors[rows]))]


def _first_of_each(keys: Tensor) -> Tensor:
    """Return where each key occurs first, ascending."""
    order, starts = _grouped(keys)
    return order[starts].sort().values


def _grouped(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return an order that brings equal keys together, first come first, and where in it each group starts."""
    ordered, order = keys.sort(stable=True)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return order, starts


def _row_keys(vectors: Tensor) -> Tensor:
    """Return one int64 a row, equal where the rows are equal and nowhere else: (vectors,)."""
    step = _ROWS if vectors.device.type == "cpu" else _GPU_ROWS
    keys = torch.cat([_hashes(vectors[start : start + step]) for start in range(0, max(1, len(vectors)), step)])
    order, starts = _grouped(keys)
    first = order[starts][starts.cumsum(0) - 1]
    repeats = ~starts
    if torch.equal(vectors[order[repeats]], vectors[first[repeats]]):
        return keys
    inverse: Tensor = torch.unique(vectors + 0.0, dim=0, return_inverse=True)[1]
    return inverse


def _hashes(rows: Tensor) -> Tensor:
    """Return a multilinear hash of each row's bits, modulo 2^64: (rows,) int64."""
    bits = (rows + 0.0).view(_BITS[rows.element_size()]).long()  # -0.0 + 0.0 is 0.0
    # Narrow floats in a wide format leave the low bits empty, where a product modulo 2^64 would collide.
    folded = bits ^ (bits >> 4 * rows.element_size())
    return (folded * _weights(rows.shape[1]).to(rows.device)).sum(1)


def _weights(dim: int) -> Tensor:
    """Return odd multipliers, the same every time: (dim,) int64."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(2**63), 2**63 - 1, (dim,), generator=generator) | 1
