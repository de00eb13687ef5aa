"""The distances from each vector to the two nearest others, exact at the price of float32.

Float32 products only propose. Each pair gets a lower bound on its squared distance, the float32 value less the
most that rounding can have added; the pairs that such bounds cannot rule out are measured again in float64 by
subtracting the vectors. A row whose candidates do not prove themselves is searched anew with float64 products.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.measures import cuda_candidates

_BLOCK = 2048
"""Rows and columns of a block of products: 16 MiB of float32."""
_CANDIDATES = 16
_ELEMENTS = 2**21
"""Float64 numbers in a temporary of the second search: 16 MiB."""
_GPU_ELEMENTS = 2**26
"""The same on a GPU, where many small steps cost more than memory: 512 MiB."""
_TINY = 2.0**-100
"""Squared norm, the largest coordinate being 1, under which float32 products may underflow."""
_INPUT_ROUNDING = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}
"""What torch's float32 matmul precision may take off each factor: nothing, or down to TF32 or bfloat16."""


def two_nearest(vectors: Tensor) -> Tensor:
    """Return each vector's distances to its nearest and second nearest other vector: (vectors, 2) float64.

    `vectors` (vectors, dim), at least three, finite, of any floating type. Equal to float64 brute force to
    rounding. The products of half the pairs are n^2 dim operations in float32; memory is two copies of the
    vectors and a few blocks. Rows that float32 cannot decide (distances of less than about 1% of the norm)
    cost a float64 product each.

    >>> two_nearest(torch.tensor([[0.0], [1.0], [3.0]])).tolist()
    [[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]]
    """
    points, scale = _centred(vectors)
    if cuda_candidates.usable(points):
        candidates = _cuda_candidates(points.float())
    else:
        candidates = _candidates(points.float(), _float32_slack(points.shape[1]), _CANDIDATES)
    return _proven(vectors, scale, points, candidates).sqrt() * scale


class _Candidates(NamedTuple):
    """Some of each point's nearest: lower bounds on the squared distances, ascending, and to whom.

    bounds, others (points, candidates); beyond (points,): whoever is not named is at least so far.
    """

    bounds: Tensor
    others: Tensor
    beyond: Tensor


def _proven(vectors: Tensor, scale: Tensor, points: Tensor, candidates: _Candidates) -> Tensor:
    """Return the two smallest squared distances, over scale^2, of every vector: (vectors, 2) float64."""
    squared = _refined(vectors, scale, candidates.bounds, candidates.others)
    proven = (candidates.beyond > squared[:, 1]) & (_squared_norms(points) > _TINY)
    doubtful = (~proven).nonzero().flatten()
    if len(doubtful):
        squared[doubtful] = _searched(vectors, scale, points, doubtful, 2)[0]
    return squared


def _centred(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the vectors in float64 about a centre, largest coordinate 1, and what they were divided by.

    The centre decides only how many rows float32 can settle. It is the median of some hundred rows, since a few
    massive vectors would drag a mean away from all the others.
    """
    some = vectors[:: max(1, len(vectors) // 256)].double()
    points = vectors.to(torch.float64, copy=True).sub_(some.median(0).values)
    scale = points.abs().amax().clamp_min(torch.finfo(torch.float64).tiny)
    return points.div_(scale), scale


def _slack(dim: int, unit: float) -> float:
    """Return s such that |computed - true| <= s (|x|^2 + |y|^2) for |x|^2 + |y|^2 - 2 x.y in floats of that unit.

    A dot product errs by gamma_dim |x||y| at most, in whatever order it is summed, and 2 |x||y| <= |x|^2 + |y|^2.
    Rounding the coordinates (4 units), the squared norms and the sums (5) fits in the 16 added here.
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
    """Return up to `most` candidates of each point, those of smallest bound.

    Of a block no more than a 64th of its width is taken, since from there on torch sorts the block whole; that
    any block holds so many of the nearest is rare, and `beyond` tells.
    """
    count = min(most, len(points))
    taken = count if len(points) <= _BLOCK else min(count, _BLOCK // 64)
    bounds = points.new_full((len(points), count), torch.inf)
    others = torch.zeros_like(bounds, dtype=torch.int64)
    beyond = points.new_full((len(points),), torch.inf)
    shrunk = _shrunk_norms(points, slack)
    blocks = [slice(i, i + _BLOCK) for i in range(0, len(points), _BLOCK)]
    for number, rows in enumerate(blocks):
        for columns in blocks[number:]:
            lower = torch.addmm(shrunk[columns], points[rows], points[columns].T, alpha=-2)
            lower += shrunk[rows, None]
            if rows == columns:
                lower.fill_diagonal_(torch.inf)
            else:
                mine = _Candidates(bounds[columns], others[columns], beyond[columns])
                _keep_smallest(mine, lower.T.contiguous(), rows.start, taken)
            mine = _Candidates(bounds[rows], others[rows], beyond[rows])
            _keep_smallest(mine, lower, columns.start, taken)
    return _Candidates(bounds, others, beyond.minimum(bounds[:, -1]))


def _cuda_candidates(points: Tensor) -> _Candidates:
    """Return the few nearest of each point by the matrix units of a GPU."""
    norms = _shrunk_norms(points, cuda_candidates.slack(points.shape[1]))
    bounds, others = cuda_candidates.smallest_bounds(points, norms)
    return _Candidates(bounds, others, bounds[:, -1])


def _shrunk_norms(points: Tensor, slack: float) -> Tensor:
    """Return squared norms less the slack, so that sums made of them bound the distances from below."""
    return _squared_norms(points).mul(1 - slack).to(points.dtype)


def _squared_norms(points: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(points, dim=1, dtype=torch.float64)
    return norms.square()


def _keep_smallest(kept: _Candidates, block: Tensor, start: int, most: int) -> None:
    """Merge a block of bounds, whose first column is point `start`, into the smallest so far, in place."""
    values, columns = block.topk(min(most, block.shape[1]), largest=False)
    if values.shape[1] < block.shape[1]:
        torch.minimum(kept.beyond, values[:, -1], out=kept.beyond)
    known = torch.cat([kept.bounds, values], 1)
    names = torch.cat([kept.others, columns + start], 1)
    values, places = known.topk(kept.bounds.shape[1], largest=False)
    kept.bounds.copy_(values)
    kept.others.copy_(names.gather(1, places))


def _refined(vectors: Tensor, scale: Tensor, bounds: Tensor, others: Tensor) -> Tensor:
    """Return the two smallest squared distances among the candidates: (vectors, 2) float64.

    The first two candidates are measured, then those only whose bound does not put them beyond.
    """
    squared = torch.full_like(bounds, torch.inf, dtype=torch.float64)
    wanted = torch.zeros_like(bounds, dtype=torch.bool)
    wanted[:, :2] = True
    _measure(squared, wanted, vectors, scale, others)
    _measure(squared, (bounds <= squared[:, :2].amax(1, keepdim=True)) & ~wanted, vectors, scale, others)
    return squared.topk(2, largest=False).values


def _measure(squared: Tensor, wanted: Tensor, vectors: Tensor, scale: Tensor, others: Tensor) -> None:
    rows, ranks = wanted.nonzero(as_tuple=True)
    squared[rows, ranks] = _squared_distances(vectors, scale, rows, others[rows, ranks])


def _squared_distances(vectors: Tensor, scale: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return |x - y|^2 / scale^2 of pairs of rows, by subtraction in float64: (pairs,)."""
    step = max(1, (_ELEMENTS if vectors.device.type == "cpu" else _GPU_ELEMENTS) // vectors.shape[1])
    squared = torch.empty(len(left), dtype=torch.float64, device=vectors.device)
    for start in range(0, len(left), step):
        pairs = slice(start, start + step)
        differences = vectors[left[pairs]].double().sub_(vectors[right[pairs]]).div_(scale)
        torch.sum(differences.square_(), 1, out=squared[pairs])
    return squared


def _searched(vectors: Tensor, scale: Tensor, points: Tensor, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k smallest squared distances of some rows, and to whom, by float64 products and subtraction.

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
        # Computed and true distance are each within the slack, so the upper bound lies twice as far away.
        spread = (2.001 * slack) * (shrunk + shrunk[part, None])
        ceiling = (lower + spread).topk(k, largest=False).values[:, -1:]
        left, right = (lower <= ceiling).nonzero(as_tuple=True)
        squared = _squared_distances(vectors, scale, part[left], right)
        places = _smallest(squared, left, len(part), k)
        found.append(squared[places])
        names.append(right[places])
    return torch.cat(found), torch.cat(names)


def _smallest(values: Tensor, groups: Tensor, count: int, k: int) -> Tensor:
    """Return where each group's k smallest values are; `groups` ascends, k members at least: (count, k)."""
    order = values.argsort()
    ordered = order[groups[order].argsort(stable=True)]
    starts = torch.searchsorted(groups, torch.arange(count, device=groups.device))
    return ordered[starts[:, None] + torch.arange(k, device=groups.device)]
