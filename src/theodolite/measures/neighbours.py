"""Nearest neighbours of every vector: the two nearest exactly, and up to 32 for scale curves and hubness.

Float32 products only propose candidates. Each pair gets a lower bound on its squared distance: the float32 value
minus the largest possible rounding error. Pairs that these bounds cannot exclude are measured again in float64 by
subtracting the vectors. A row whose candidates are not proven to be the nearest is searched again with float64
products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.measures.cuda import distance_bounds, pairs
from theodolite.measures.duplicates import check_vectors, distinct, find_near_duplicates

_BLOCK, _GPU_BLOCK = 2048, 8192
"""Rows and columns of a block of products: 16 MiB of float32, and 256 MiB on a GPU, where few steps are faster."""
_CANDIDATES = 16
_ELEMENTS = 2**21
"""Float64 numbers in a temporary of the second search: 16 MiB."""
_GPU_ELEMENTS = 2**26
"""The same on a GPU, where many small steps cost more than memory: 512 MiB."""
_TINY = 2.0**-100
"""Squared norm (with a largest coordinate of 1) below which float32 products may underflow."""
_INPUT_ROUNDING = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}
"""Rounding of each factor by torch's float32 matmul precision: none, TF32 or bfloat16."""


def two_nearest(vectors: Tensor) -> Tensor:
    """Return each vector's distances to its nearest and second nearest other vector: (vectors, 2) float64.

    `vectors` (vectors, dim), at least three, finite, of any floating type. Equal to float64 brute force up to
    rounding. Cost: products of half the pairs, n^2 dim operations in float32, and memory for two copies of the
    vectors and a few blocks. Rows that float32 cannot decide (distances below about 1% of the norm) cost one
    float64 product each.

    >>> two_nearest(torch.tensor([[0.0], [1.0], [3.0]])).tolist()
    [[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]]
    """
    points, scale = _centre(vectors)
    if distance_bounds.is_supported(points):
        candidates = _cuda_candidates(points.float())
    else:
        candidates = _candidates(points.float(), _float32_slack(points.shape[1]), _CANDIDATES)
    return _prove_two_nearest(vectors, scale, points, candidates).sqrt() * scale


class _Candidates(NamedTuple):
    """Candidates for each point's nearest: lower bounds on squared distances, ascending, and the other points.

    bounds, others (points, candidates); beyond (points,): a lower bound for all other points.
    """

    bounds: Tensor
    others: Tensor
    beyond: Tensor


def _prove_two_nearest(vectors: Tensor, scale: Tensor, points: Tensor, candidates: _Candidates) -> Tensor:
    """Return the two smallest squared distances, over scale^2, of every vector: (vectors, 2) float64."""
    squared = _refine(vectors, scale, candidates.bounds, candidates.others)
    proven = (candidates.beyond > squared[:, 1]) & (_squared_norms(points) > _TINY)
    doubtful = (~proven).nonzero().flatten()
    if len(doubtful):
        squared[doubtful] = _search_again(vectors, scale, points, doubtful, 2)[0]
    return squared


def _centre(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the vectors in float64, centred and divided by their largest coordinate, and that divisor.

    The centre affects only how many rows float32 can decide. It is the median of a few hundred rows, since a few
    massive vectors would move a mean away from all other vectors.
    """
    subset = vectors[:: max(1, len(vectors) // 256)].double()
    points = vectors.to(torch.float64, copy=True).sub_(subset.median(0).values)
    scale = points.abs().amax().clamp_min(torch.finfo(torch.float64).tiny)
    return points.div_(scale), scale


def _slack(dim: int, unit: float) -> float:
    """Return s with |computed - true| <= s (|x|^2 + |y|^2) for |x|^2 + |y|^2 - 2 x.y at this unit roundoff.

    A dot product errs by at most gamma_dim |x||y|, in any order of summation, and 2 |x||y| <= |x|^2 + |y|^2. The
    rounding of the coordinates (4 units), squared norms and sums (5) is covered by the 16 added here.
    Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    steps = (dim + 16) * unit
    return steps / (1 - steps) if steps < 0.5 else 1.0


def _float32_slack(dim: int) -> float:
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # set differently for each backend: assume the coarsest
        precision = "medium"
    return _slack(dim, 2.0**-24) + 4 * _INPUT_ROUNDING[precision]


def _candidates(points: Tensor, slack: float, most: int) -> _Candidates:
    """Return up to `most` candidates of each point: those with the smallest bounds.

    At most a 64th of the columns of a block is taken, since beyond that torch sorts the complete block. A block
    that holds more of the nearest is rare, and `beyond` detects it.
    """
    count = min(most, len(points))
    size = _GPU_BLOCK if points.is_cuda else _BLOCK
    taken = count if len(points) <= size else min(count, size // 64)
    bounds = points.new_full((len(points), count), torch.inf)
    others = torch.zeros_like(bounds, dtype=torch.int64)
    beyond = points.new_full((len(points),), torch.inf)
    shrunk = _shrunk_norms(points, slack)
    blocks = [slice(i, i + size) for i in range(0, len(points), size)]
    for number, rows in enumerate(blocks):
        for columns in blocks[number:]:
            lower = torch.addmm(shrunk[columns], points[rows], points[columns].T, alpha=-2)
            lower += shrunk[rows, None]
            if rows == columns:
                lower.fill_diagonal_(torch.inf)
            else:
                mine = _Candidates(bounds[columns], others[columns], beyond[columns])
                _merge_smallest(mine, lower.T.contiguous(), rows.start, taken)
            mine = _Candidates(bounds[rows], others[rows], beyond[rows])
            _merge_smallest(mine, lower, columns.start, taken)
    return _Candidates(bounds, others, beyond.minimum(bounds[:, -1]))


def _cuda_candidates(points: Tensor) -> _Candidates:
    """Return a few candidates of each point, computed on a GPU's tensor cores."""
    norms = _shrunk_norms(points, distance_bounds.cuda_slack(points.shape[1]))
    bounds, others = distance_bounds.smallest_bounds(points, norms)
    return _Candidates(bounds, others, bounds[:, -1])


def _shrunk_norms(points: Tensor, slack: float) -> Tensor:
    """Return squared norms reduced by the slack, so that sums of them are lower bounds of squared distances."""
    return _squared_norms(points).mul(1 - slack).to(points.dtype)


def _squared_norms(points: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(points, dim=1, dtype=torch.float64)
    return norms.square()


def _merge_smallest(kept: _Candidates, block: Tensor, start: int, most: int) -> None:
    """Merge a block of bounds, whose first column is point `start`, into the smallest bounds so far, in place."""
    values, columns = block.topk(min(most, block.shape[1]), largest=False)
    if values.shape[1] < block.shape[1]:
        torch.minimum(kept.beyond, values[:, -1], out=kept.beyond)
    known = torch.cat([kept.bounds, values], 1)
    names = torch.cat([kept.others, columns + start], 1)
    values, places = known.topk(kept.bounds.shape[1], largest=False)
    kept.bounds.copy_(values)
    kept.others.copy_(names.gather(1, places))


def _refine(vectors: Tensor, scale: Tensor, bounds: Tensor, others: Tensor) -> Tensor:
    """Return the two smallest squared distances among the candidates: (vectors, 2) float64.

    The first two candidates are measured, then only those whose bound does not exceed these distances.
    """
    squared = torch.full_like(bounds, torch.inf, dtype=torch.float64)
    first = torch.zeros_like(bounds, dtype=torch.bool)
    first[:, :2] = True
    _measure(squared, first, vectors, scale, others)
    _measure(squared, (bounds <= squared[:, :2].amax(1, keepdim=True)) & ~first, vectors, scale, others)
    return squared.topk(2, largest=False).values


def _measure(squared: Tensor, chosen: Tensor, vectors: Tensor, scale: Tensor, others: Tensor) -> None:
    rows, ranks = chosen.nonzero(as_tuple=True)
    squared[rows, ranks] = _squared_distances(vectors, scale, rows, others[rows, ranks])


def _squared_distances(vectors: Tensor, scale: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return |x - y|^2 / scale^2 of pairs of rows, by subtraction in float64: (pairs,)."""
    if pairs.is_supported(vectors):
        return pairs.squared_distances(vectors, scale, left, right)
    step = max(1, (_ELEMENTS if vectors.device.type == "cpu" else _GPU_ELEMENTS) // vectors.shape[1])
    squared = torch.empty(len(left), dtype=torch.float64, device=vectors.device)
    for start in range(0, len(left), step):
        some = slice(start, start + step)
        differences = vectors[left[some]].double().sub_(vectors[right[some]]).div_(scale)
        torch.sum(differences.square_(), 1, out=squared[some])
    return squared


def _search_again(vectors: Tensor, scale: Tensor, points: Tensor, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k smallest squared distances of the given rows and the other points, by float64 products.

    Both (rows, k), ascending.
    """
    slack = _slack(points.shape[1], 2.0**-52)  # twice the unit: the norms round as the products do
    shrunk = _shrunk_norms(points, slack)
    step = max(1, (_ELEMENTS if points.device.type == "cpu" else _GPU_ELEMENTS) // len(points))
    found, names = [], []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        lower = torch.addmm(shrunk, points[part], points.T, alpha=-2).add_(shrunk[part, None])
        lower[torch.arange(len(part), device=lower.device), part] = torch.inf
        # Computed and true distance are each within the slack, so the upper bound is twice as far away.
        spread = (2.001 * slack) * (shrunk + shrunk[part, None])
        ceiling = (lower + spread).topk(k, largest=False).values[:, -1:]
        left, right = (lower <= ceiling).nonzero(as_tuple=True)
        squared = _squared_distances(vectors, scale, part[left], right)
        places = _smallest(squared, left, len(part), k)
        found.append(squared[places])
        names.append(right[places])
    return torch.cat(found), torch.cat(names)


def _smallest(values: Tensor, groups: Tensor, count: int, k: int) -> Tensor:
    """Return the positions of the k smallest values of each group; `groups` is sorted: (count, k)."""
    order = values.argsort()
    ordered = order[groups[order].argsort(stable=True)]
    starts = torch.searchsorted(groups, torch.arange(count, device=groups.device))
    return ordered[starts[:, None] + torch.arange(k, device=groups.device)]


MAX_NEIGHBOURS = 32
"""Neighbours kept by default: as many as the scale curve needs."""
_SPARE = 8
"""Additional candidates, so that the last neighbour can be proven."""
_TRUSTED = 1e-3
"""Relative rounding of a squared distance up to which a float32 product is used."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The nearest neighbours of n distinct vectors, each row ascending.

    distances   (n, k) float64; the first two exact up to rounding, the others within 5e-4 (1e-6 is usual)
    others      (n, k) int64, indices among the distinct vectors
    duplicates  number of vectors dropped because they repeat another, exactly or nearly
    near        how many of these are near-duplicates
    """

    distances: Tensor
    others: Tensor
    duplicates: int
    near: int = 0

    def __len__(self) -> int:
        return len(self.distances)

    def cpu(self) -> Neighbourhood:
        """Return the same on the CPU."""
        return Neighbourhood(self.distances.cpu(), self.others.cpu(), self.duplicates, self.near)

    @property
    def k(self) -> int:
        """Number of neighbours of each vector."""
        return self.distances.shape[1]


def neighbourhood(vectors: Tensor, *, contexts: Tensor | None = None, most: int = MAX_NEIGHBOURS) -> Neighbourhood:
    """Return the `most` nearest neighbours of every distinct vector, or all others if there are fewer.

    `vectors` (vectors, dim), finite, of any floating type; equal ones, and all but the first of each value in
    `contexts` (vectors,), are dropped and counted, as in `twonn`, and so are near-duplicates (see
    `find_near_duplicates`); then neighbours are searched again. Cost: n^2 dim float32 operations, and one
    float64 subtraction for each pair closer than about 3% of its centred norms (dim 576).

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
    found = _find_neighbours(kept, k)
    near = find_near_duplicates(*found)
    if len(near):
        rest = torch.ones(len(kept), dtype=torch.bool, device=kept.device)
        rest[near] = False
        kept = kept[rest]
        found = _find_neighbours(kept, min(most, len(kept) - 1))
    return Neighbourhood(*found, duplicates + len(near), len(near))


def _find_neighbours(vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    points, scale = _centre(vectors)
    slack = _float32_slack(points.shape[1])
    candidates = _candidates(points.float(), slack, k + _SPARE)
    values, places = _trusted_distances(vectors, scale, points, candidates, slack).topk(k, largest=False)
    names = candidates.others.gather(1, places)
    missing = (candidates.beyond < (1 - _TRUSTED) * values[:, -1]) | (_squared_norms(points) <= _TINY)
    doubtful = missing.nonzero().flatten()
    if len(doubtful):
        values[doubtful], names[doubtful] = _search_again(vectors, scale, points, doubtful, k)
    exact = _prove_two_nearest(vectors, scale, points, candidates)
    values = torch.cat([exact, values[:, 2:].maximum(exact[:, 1:])], 1)
    return values.sqrt() * scale, names


def _trusted_distances(
    vectors: Tensor, scale: Tensor, points: Tensor, candidates: _Candidates, slack: float
) -> Tensor:
    """Return the candidates' squared distances over scale^2, in float64 where float32 is not accurate enough."""
    bounds, others, _ = candidates
    norms = _squared_norms(points)
    reach = slack * (norms[:, None] + norms[others])
    squared = bounds.double() + reach
    unsure = (reach > _TRUSTED * squared) & bounds.isfinite()
    rows, ranks = unsure.nonzero(as_tuple=True)
    if len(rows):
        squared[rows, ranks] = _squared_distances(vectors, scale, rows, others[rows, ranks])
    return squared
