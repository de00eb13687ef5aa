"""Each vector's nearest others, more than two of them: who they are and how far, in one pass over all pairs.

The pass is that of `neighbours`, and the two nearest are exact as there. Of the others a float32 product is
believed where rounding can have moved it by little, and measured again in float64 by subtraction elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from theodolite.measures.duplicates import distinct
from theodolite.measures.neighbours import (
    _TINY,
    _Candidates,
    _candidates,
    _centred,
    _float32_slack,
    _proven,
    _searched,
    _squared_distances,
    _squared_norms,
)
from theodolite.measures.twonn import check_vectors

MOST = 32
"""Neighbours kept, unless told: what the scale curve needs."""
_SPARE = 8
"""Candidates beyond those, so that the last one wanted can prove itself."""
_WITHIN = 1e-3
"""What rounding may move a squared distance by, of itself, where a float32 product is believed."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The nearest others of n distinct vectors, each row ascending.

    distances   (n, k) float64; the first two exact to rounding, the others within 5e-4 (1e-6 is usual)
    others      (n, k) int64, numbers among the distinct vectors
    duplicates  vectors left out because they repeat another
    """

    distances: Tensor
    others: Tensor
    duplicates: int

    def __len__(self) -> int:
        return len(self.distances)

    def cpu(self) -> Neighbourhood:
        """Return the same in memory, whatever device the vectors lay on."""
        return Neighbourhood(self.distances.cpu(), self.others.cpu(), self.duplicates)

    @property
    def k(self) -> int:
        """How many neighbours of each are known."""
        return self.distances.shape[1]


def neighbourhood(vectors: Tensor, *, contexts: Tensor | None = None, most: int = MOST) -> Neighbourhood:
    """Return the `most` nearest others of every distinct vector, or all others where there are fewer.

    `vectors` (vectors, dim), finite, of any floating type; equal ones, and all but the first of each value in
    `contexts` (vectors,), are dropped and counted, as for `twonn`. Cost: n^2 dim float32 operations, and a
    float64 subtraction for each pair closer than about 3% of its norms (dim 576) about the cloud's middle.

    >>> found = neighbourhood(torch.tensor([[0.0], [1.0], [3.0], [7.0], [1.0]]), most=2)
    >>> found.distances.tolist(), found.others.tolist(), found.duplicates
    ([[1.0, 3.0], [1.0, 2.0], [2.0, 3.0], [4.0, 6.0]], [[1, 2], [0, 2], [1, 0], [2, 1]], 1)
    """
    check_vectors(vectors, contexts)
    rows = distinct(vectors.detach(), contexts)
    duplicates = len(vectors) - len(rows)
    kept = vectors.detach()[rows] if duplicates else vectors.detach()
    k = min(most, len(kept) - 1)
    if k < 2:
        none = torch.empty(len(kept), 0, dtype=torch.float64)
        return Neighbourhood(none, none.long(), duplicates)
    return Neighbourhood(*_nearest(kept, k), duplicates)


def _nearest(vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    points, scale = _centred(vectors)
    slack = _float32_slack(points.shape[1])
    candidates = _candidates(points.float(), slack, k + _SPARE)
    values, places = _believed(vectors, scale, points, candidates, slack).topk(k, largest=False)
    names = candidates.others.gather(1, places)
    missing = (candidates.beyond < (1 - _WITHIN) * values[:, -1]) | (_squared_norms(points) <= _TINY)
    doubtful = missing.nonzero().flatten()
    if len(doubtful):
        values[doubtful], names[doubtful] = _searched(vectors, scale, points, doubtful, k)
    exact = _proven(vectors, scale, points, candidates)
    values = torch.cat([exact, values[:, 2:].maximum(exact[:, 1:])], 1)
    return values.sqrt() * scale, names


def _believed(vectors: Tensor, scale: Tensor, points: Tensor, candidates: _Candidates, slack: float) -> Tensor:
    """Return the candidates' squared distances, over scale^2, measured anew where float32 cannot be believed."""
    bounds, others, _ = candidates
    norms = _squared_norms(points)
    reach = slack * (norms[:, None] + norms[others])
    squared = bounds.double() + reach
    unsure = (reach > _WITHIN * squared) & bounds.isfinite()
    rows, ranks = unsure.nonzero(as_tuple=True)
    if len(rows):
        squared[rows, ranks] = _squared_distances(vectors, scale, rows, others[rows, ranks])
    return squared
