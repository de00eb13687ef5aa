"""Eigenvalues and eigenvectors after x x^T is added to a symmetric matrix, from those before.

A new solution takes about 10 dim^3 operations, most of them limited by memory. Here the eigenvalues are the zeros
of a function with dim terms (Golub 1973), and new eigenvectors are a product with the old ones.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, index, untyped-decorator"

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.optional_triton import can_launch, jit, tl

EPS = torch.finfo(torch.float64).eps
STEPS = 64
LEAST = 2.0**-240
"""How near a zero can be to its pole, relative to half of the interval: weights are squares of at least 2^-52."""
ROWS = 4096
"""Zeros found at a time without a kernel: 128 MB for 4,096 poles."""
COLUMNS = 1024
"""Terms that a program of the kernel adds at a time."""


class Roots(NamedTuple):
    """Zeros as differences from the nearest pole, which keeps their distance from it exact."""

    origin: Tensor  # (dim,) the number of that pole
    offset: Tensor  # (dim,) the zero minus the pole


def find_roots(poles: Tensor, weights: Tensor) -> Roots:
    """Return the zeros of 1 + sum w_i / (p_i - x), one between each pole and the next, and one after the last.

    Each is found by bisection of the logarithm of its distance from the nearest pole, also if weights are 0 or
    poles are equal; on a GPU, by Newton's method in the end.
    poles: (dim,) ascending, weights: (dim,) not negative, both float64

    >>> roots = find_roots(torch.tensor([0.0, 2.0]).double(), torch.tensor([1.0, 1.0]).double())  # of x^2 - 4x + 2
    >>> (roots.offset + 2 * roots.origin).round(decimals=9).tolist()
    [0.585786438, 3.414213562]
    """
    dim = len(poles)
    number = torch.arange(dim, device=poles.device)
    half = torch.cat([poles.diff() / 2, weights.sum()[None]])  # the last zero is at most the sum above its pole
    above = _evaluate(poles, weights, number, half) > 0
    above[-1] = True
    origin = torch.where(above, number, number + 1)
    side = torch.where(above, 1.0, -1.0).double()
    if can_launch(poles):
        offset = torch.empty_like(poles)
        _root_kernel[(dim,)](
            poles,
            weights,
            origin,
            side,
            half,
            half * LEAST,
            offset,
            dim,
            STEPS=STEPS,
            CLOSE=EPS / 2,
            BLOCK=COLUMNS,
        )
    else:
        low, high = half * LEAST, half
        for _ in range(STEPS):
            middle = low.sqrt() * high.sqrt()
            lower = (_evaluate(poles, weights, origin, side * middle) > 0) == (side > 0)
            low, high = torch.where(lower, low, middle), torch.where(lower, middle, high)
        offset = side * high
    return Roots(origin, torch.where(half > 0, offset, 0.0))


def _evaluate(poles: Tensor, weights: Tensor, origin: Tensor, offset: Tensor) -> Tensor:
    """Return 1 + sum w_i / (p_i - x) at x = origin + offset. (any,) each -> (any,)"""
    found = torch.empty_like(offset)
    for start in range(0, len(offset), ROWS):
        some = slice(start, start + ROWS)
        found[some] = (weights / ((poles - poles[origin[some], None]) - offset[some, None])).sum(dim=1) + 1
    return found


@jit
def _root_kernel(
    poles, weights, origin, side, most, least, offset, dim,
    STEPS: tl.constexpr, CLOSE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find one zero as `find_roots` does; once its distance m from the pole is known to a factor of 2, by Newton.

    Newton's method is applied to m times the function, in which the nearest pole cancels. A step that leaves the
    interval is replaced by a bisection.
    """
    root = tl.program_id(0)
    pole = tl.load(poles + tl.load(origin + root))
    sign = tl.load(side + root)
    low = tl.load(least + root)
    high = tl.load(most + root)
    middle = tl.sqrt(low) * tl.sqrt(high)
    change = middle
    steps = 0
    while (steps < STEPS) & (change > CLOSE * middle):
        terms = tl.zeros([BLOCK], tl.float64)
        slopes = tl.zeros([BLOCK], tl.float64)
        for start in range(0, dim, BLOCK):
            number = start + tl.arange(0, BLOCK)
            inside = number < dim
            distance = tl.load(poles + number, mask=inside, other=0.0) - pole - sign * middle
            inverse = 1.0 / tl.where(inside, distance, 1.0)
            term = tl.load(weights + number, mask=inside, other=0.0) * inverse
            terms += term
            slopes += term * inverse
        value = tl.sum(terms, 0) + 1
        lower = (value > 0) == (sign > 0)
        high = tl.where(lower, middle, high)
        low = tl.where(lower, low, middle)
        newton = middle - middle * value / (value + middle * sign * tl.sum(slopes, 0))
        usable = (high < 2 * low) & (newton > low) & (newton < high)
        following = tl.where(usable, newton, tl.sqrt(low) * tl.sqrt(high))
        change = tl.abs(following - middle)
        middle = following
        steps += 1
    tl.store(offset + root, sign * middle)


def add_outer_product(values: Tensor, vectors: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues, ascending, and eigenvectors of A + x x^T from those of A.

    Eigenvectors are computed from the zeros and from weights that have exactly these zeros, which makes them
    orthogonal (Gu and Eisenstat 1994). Equal eigenvalues are separated, and coordinates of x that are 0 are
    changed, by the rounding of the largest. Cost: about 100 dim^2 divisions, and a product of 2 dim^3.

    values: (dim,) ascending, vectors: (dim, dim) as columns, x: (dim,), all float64

    >>> x = torch.tensor([3.0, 4.0], dtype=torch.float64)
    >>> values, vectors = add_outer_product(torch.zeros(2).double(), torch.eye(2).double(), x)
    >>> values.round(decimals=9).tolist(), (vectors @ values.diag() @ vectors.T).round(decimals=9).tolist()
    ([0.0, 25.0], [[9.0, 12.0], [12.0, 16.0]])
    """
    z = vectors.T @ x
    total = float(z @ z)
    if not total > 0:
        return values, vectors
    # In units of the largest number, a power of 4, so that no square is lost.
    unit = 4.0 ** min(max(math.frexp(max(float(values.abs().max()), total))[1] // 2, -500), 500)
    values, z, total = values / unit, z / unit**0.5, total / unit
    apart = 4 * EPS * max(float(values.abs().max()), total) * torch.arange(len(values), device=values.device)
    poles = (values - apart).cummax(0).values + apart
    z = torch.where(z.abs() < EPS * total**0.5, torch.copysign(torch.full_like(z, EPS * total**0.5), z), z)
    roots = find_roots(poles, z.square())
    return unit * (poles[roots.origin] + roots.offset), vectors @ _combine(poles, roots, z)


def _combine(poles: Tensor, roots: Roots, z: Tensor) -> Tensor:
    """Return the new eigenvectors as columns in terms of the old ones, with the signs of z. -> (dim, dim)"""
    dim, starts = len(poles), poles[roots.origin]
    if can_launch(poles):
        weights, rows = torch.empty_like(z), z.new_empty(dim, dim)
        _weight_kernel[(dim,)](poles, starts, roots.offset, z, weights, dim, BLOCK=COLUMNS)
        _combine_kernel[(dim,)](poles, starts, roots.offset, weights, rows, dim, BLOCK=COLUMNS)
        return rows.T
    differences = (poles[:, None] - starts) - roots.offset  # of pole i and zero j
    between = (poles[:, None] - poles).abs_().fill_diagonal_(1.0)
    logs = differences.abs().log_().sum(dim=1) - between.log_().sum(dim=1)
    combinations = torch.copysign((logs / 2).exp_(), z)[:, None] / differences
    combinations /= torch.linalg.vector_norm(combinations, dim=0)
    return combinations


@jit
def _weight_kernel(poles, starts, offset, z, weights, dim, BLOCK: tl.constexpr):
    """Compute the weight of one pole, with the sign of z."""
    number = tl.program_id(0)
    pole = tl.load(poles + number)
    logs = tl.zeros([BLOCK], tl.float64)
    for start in range(0, dim, BLOCK):
        other = start + tl.arange(0, BLOCK)
        inside = other < dim
        zero = tl.load(starts + other, mask=inside, other=0.0)
        to_zero = (pole - zero) - tl.load(offset + other, mask=inside, other=0.0)
        to_pole = pole - tl.load(poles + other, mask=inside, other=0.0)
        logs += tl.log(tl.abs(tl.where(inside, to_zero, 1.0)))
        logs -= tl.log(tl.abs(tl.where(inside & (other != number), to_pole, 1.0)))
    weight = tl.exp(tl.sum(logs, 0) / 2)
    tl.store(weights + number, tl.where(tl.load(z + number) < 0, -weight, weight))


@jit
def _combine_kernel(poles, starts, offset, weights, rows, dim, BLOCK: tl.constexpr):
    """Write one new eigenvector, in terms of the old ones, as a row."""
    number = tl.program_id(0).to(tl.int64)
    zero = tl.load(starts + number)
    away = tl.load(offset + number)
    squares = tl.zeros([BLOCK], tl.float64)
    for start in range(0, dim, BLOCK):
        pole = start + tl.arange(0, BLOCK)
        inside = pole < dim
        difference = (tl.load(poles + pole, mask=inside, other=0.0) - zero) - away
        part = tl.load(weights + pole, mask=inside, other=0.0) / tl.where(inside, difference, 1.0)
        squares += part * part
        tl.store(rows + number * dim + pole, part, mask=inside)
    inverse = 1.0 / tl.sqrt(tl.sum(squares, 0))
    tl.debug_barrier()
    for start in range(0, dim, BLOCK):
        pole = start + tl.arange(0, BLOCK)
        inside = pole < dim
        into = rows + number * dim + pole
        tl.store(into, tl.load(into, mask=inside, other=0.0) * inverse, mask=inside)


def eigenvalues_about_mean(values: NDArray[np.float64], vectors: Tensor, mean: Tensor) -> NDArray[np.float64]:
    """Return the eigenvalues of a covariance from those of the second moment, largest first.

    The covariance is the second moment minus mean mean^T; the error is rounding of the largest eigenvalue of the
    second moment. Cost: 64 dim^2 divisions.

    values: (dim,) largest first; vectors: (dim, dim) as columns, smallest first; mean: (dim,) -> (dim,)

    >>> second = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # of (1, 0), (1, 0), (2, 2), ...
    >>> mean = torch.tensor([1.0, 0.5], dtype=torch.float64)
    >>> expected = np.linalg.eigvalsh((second - torch.outer(mean, mean)).numpy())[::-1]
    >>> found, axes = torch.linalg.eigh(second)
    >>> bool(np.allclose(eigenvalues_about_mean(found.numpy()[::-1], axes, mean), expected))
    True
    """
    # The eigenvalues of -A + mean mean^T with the opposite sign.
    poles = -to_device(torch.from_numpy(values.copy()), vectors.device)
    weights = (vectors.T @ mean.to(vectors.device)).square().flip(0)
    roots = find_roots(poles, weights)
    found = -(poles[roots.origin] + roots.offset)
    return np.asarray(np.maximum(found.cpu().numpy(), 0.0))
