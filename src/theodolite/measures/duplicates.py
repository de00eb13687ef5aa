"""Input checks for neighbour methods: valid vectors, and which of them repeat another."""

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from theodolite.devices import to_device
from theodolite.errors import TheodoliteError

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROWS = 1024
"""Rows hashed at a time, so that their 64-bit copies are small."""

_GPU_ROWS = 2**16
_NEAR = 1e-3
"""A near-duplicate is closer than this share of the distance to the farthest neighbour found."""
_FALSE = 0.05
"""Expected number of vectors that random points would have as close, at most: in few dimensions some are close."""
_FEWEST_VECTORS, _FEWEST_NEIGHBOURS = 100, 16
"""With fewer there is no bulk to compare with."""


def check_vectors(vectors: Tensor, contexts: Tensor | None) -> None:
    """Raise if vectors are not (vectors, dim), floating and finite, or if contexts are not one per vector."""
    if vectors.ndim != 2 or not vectors.is_floating_point():
        raise TheodoliteError(
            f"vectors must be (vectors, dim) of a floating type (got {tuple(vectors.shape)} {vectors.dtype})."
        )
    if contexts is not None and contexts.shape != vectors.shape[:1]:
        raise TheodoliteError(
            f"contexts must hold one integer per vector, ({len(vectors)},) (got {tuple(contexts.shape)})."
        )
    finite = vectors.isfinite().all(1)
    if not finite.all():
        bad = len(vectors) - int(finite.sum())
        raise TheodoliteError(
            f"vectors must be finite, but {bad} of {len(vectors)} rows are not. Remove those rows first."
        )


def distinct(vectors: Tensor, contexts: Tensor | None = None) -> Tensor:
    """Return the row numbers, ascending, of the first vector of each set of duplicates: (distinct,) int64.

    Vectors are duplicates if they are equal (0.0 equals -0.0) or, with `contexts` (vectors,), if their contexts
    are equal: in a causal model, states of equal left context differ only by rounding. Cost: one sort of the
    rows' 64-bit hashes. Rows of equal hash are compared, so a collision costs time but never changes the result.

    >>> distinct(torch.tensor([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0]])).tolist()
    [0, 1]
    >>> distinct(torch.tensor([[0.0], [2.0], [2.1]]), torch.tensor([7, 8, 8])).tolist()
    [0, 1]
    """
    if contexts is None:
        return _first_of_each(_row_keys(vectors))
    rows = _first_of_each(to_device(contexts, vectors.device))
    return rows[_first_of_each(_row_keys(vectors[rows]))]


def _first_of_each(keys: Tensor) -> Tensor:
    """Return the position of the first occurrence of each key, ascending."""
    order, starts = _grouped(keys)
    return order[starts].sort().values


def _grouped(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return a stable order that groups equal keys, and where in it each group starts."""
    ordered, order = keys.sort(stable=True)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return order, starts


def _row_keys(vectors: Tensor) -> Tensor:
    """Return one int64 per row, equal exactly where the rows are equal: (vectors,)."""
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
    # Narrow floats in a wide format have empty low bits, with which a product modulo 2^64 would collide.
    folded = bits ^ (bits >> 4 * rows.element_size())
    return (folded * to_device(_weights(rows.shape[1]), rows.device)).sum(1)


def _weights(dim: int) -> Tensor:
    """Return odd multipliers from a fixed seed: (dim,) int64."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(2**63), 2**63 - 1, (dim,), generator=generator) | 1


def find_near_duplicates(distances: Tensor, others: Tensor) -> Tensor:
    """Return the rows, ascending, to drop so that one of each set of near-duplicates is left: (dropped,) int64.

    Two vectors are near-duplicates if their distance is far below the bulk: less than a share of the distance to
    the k-th neighbour, of their own and of the median vector. The share is 1/1000, and less in few dimensions,
    where random points may be as close: k n share^d is at most 0.05. A pair repeated with a relative noise of 1e-6
    would otherwise give TwoNN a ratio r2/r1 of a million. distances, others: (n, k), rows ascending; sets of k or
    more are not found.

    >>> points = torch.rand(200, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> points[7] = points[3] + 1e-7
    >>> distances, others = torch.cdist(points, points).sort(1)
    >>> find_near_duplicates(distances[:, 1:17], others[:, 1:17]).tolist()
    [7]
    """
    n, k = distances.shape
    none = torch.empty(0, dtype=torch.int64, device=distances.device)
    if n < _FEWEST_VECTORS or k < _FEWEST_NEIGHBOURS:
        return none
    far, half = distances[:, -1], distances[:, k // 2 - 1]
    growth = float((far.log() - half.log()).median())  # (k / (k // 2))^(1/d)
    if not growth > 0:
        return none
    exponent = growth / float(np.log(k / (k // 2)))  # 1/d
    share = min(_NEAR, float((_FALSE / (n * k)) ** exponent))
    rows, ranks = (distances < share * far.minimum(far.median())[:, None]).nonzero(as_tuple=True)
    if not len(rows):
        return none
    pairs = torch.stack([rows, others[rows, ranks]]).cpu().numpy()
    sets = connected_components(coo_array((np.ones(pairs.shape[1]), pairs), shape=(n, n)), directed=False)[1]
    first = np.unique(sets, return_index=True)[1]
    return torch.from_numpy(np.setdiff1d(np.arange(n), first)).to(distances.device)
