"""Errors of Q, M, V, V_W and V_B over everything when other units might have been met: a bootstrap over units."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures.unit_sums import Sums as UnitSums
from theodolite.measures.unit_sums import sum_of

Array = NDArray[np.float64]
RESAMPLES, BLOCK = 200, 2048
KEPT = 2**26
"""Counts of draws that are remembered: a byte each, of most layers of a survey the same."""
PARTS = ("q", "m", "v", "v_within", "v_between")
SHARES = {
    "m_of_q": ("m", "q"),
    "v_within_of_q": ("v_within", "q"),
    "v_between_of_q": ("v_between", "q"),
    "v_within_of_v": ("v_within", "v"),
}
"""Ratios whose errors are told; V/Q has that of M/Q, and V_B/V that of V_W/V."""
ERRORS = tuple(f"{name}_se" for name in (*PARTS, *SHARES))


def told(prefix: str = "") -> str:
    """Say in words which columns hold these errors of a set of units, for the registry of formulas.

    >>> told("text_")[:62]
    'bootstrap over units, 200 resamples (text_q_se, text_m_se, tex'
    """
    columns = ", ".join(f"{prefix}{name}" for name in ERRORS)
    return f"bootstrap over units, {RESAMPLES} resamples ({columns})"


Draws = Iterator[tuple[int, NDArray[np.integer[Any]]]]
"""Blocks of units: the first of each, and how often each of them is drawn. (resamples, units of the block)"""


class Sums(NamedTuple):
    """What a resample needs of its units: sums that add up over units and over blocks of them."""

    n: Array  # (resamples,) vectors
    away: Array  # (resamples, dim) of what the units' means are away from `shift`, times n
    squares: Array  # (resamples,) of its squared length, times n
    within: Array  # (resamples,) of V(X_t), times n


def unit_errors(
    n: NDArray[np.int64],
    total: UnitSums,
    unit_v: Array,
    centre: Array,
    sets: NDArray[np.bool_],
    order: NDArray[np.int64] | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[dict[str, float]]:
    """Return, for each set of units, the standard errors of its parts of Q and of their ratios; NaN if undefined.

    A resample draws as many units as there are, with replacement; a unit drawn k times counts k times, with all
    its vectors. A set's resample is what was drawn of it, so that all sets share one matrix product of how often
    each unit was drawn with the units' means, O(resamples x units x dim), made a block of units at a time: 0.25 s
    for 15,000 units of 768 coordinates. `order` says whom the draws fall on: give one that does not depend on how
    units happen to be numbered.
    n: (units,), total: (units, dim) sums about the centre, unit_v: (units,), sets: (sets, units) -> (sets,)

    >>> n, means = np.full(400, 10), np.random.default_rng(0).normal(3, 1, (400, 1))
    >>> errors, = unit_errors(n, 10 * means, np.zeros(400), np.zeros(1), np.ones((1, 400), dtype=bool))
    >>> round(errors["m_se"], 1), errors["v_within_se"]  # of a mean squared: 2 x 3 x 1/sqrt(400) = 0.3
    (0.3, 0.0)
    """
    shift = sum_of(total) / n.sum()  # about the mean of everything, so that V_B does not cancel
    # Units of the same sets are summed together: which sets those are, read as a number, tells them apart.
    known, kind = np.unique(2 ** np.arange(len(sets))[::-1] @ sets, return_inverse=True)
    kinds = known >> np.arange(len(sets))[::-1, None] & 1 > 0
    order = np.arange(len(n)) if order is None else order
    parts = draws(len(n), seed=seed, resamples=resamples)
    if isinstance(total, Tensor):
        sums = _summed_there(n, total, unit_v, shift, kind, order, parts)
    else:
        sums = [_nothing(resamples, len(centre)) for _ in range(kinds.shape[1])]
        _sum(sums, n, total, unit_v, shift, kind, order, parts)
    mean = shift + centre
    return [_errors([held for held, inside in zip(sums, row, strict=True) if inside], mean) for row in kinds]


def _sum(
    sums: list[Sums],
    n: NDArray[np.int64],
    total: Array,
    unit_v: Array,
    shift: Array,
    kind: NDArray[np.int64],
    order: NDArray[np.int64],
    parts: Draws,
) -> None:
    """Add everything to the sums of each kind, a block of units after the other."""
    for first, counts in parts:
        block = order[first : first + counts.shape[1]]
        for number, held in enumerate(sums):
            alike = kind[block] == number
            if alike.any():
                of = block[alike]
                away = total[of]
                away /= n[of, None]
                away -= shift
                _add(held, counts[:, alike] * n[of], away, unit_v[of])


def _summed_there(
    n: NDArray[np.int64],
    total: Tensor,
    unit_v: Array,
    shift: Array,
    kind: NDArray[np.int64],
    order: NDArray[np.int64],
    parts: Draws,
) -> list[Sums]:
    """Return the sums of each kind where the units' sums lie: one product each, with a copy of its means."""
    counts = np.concatenate([counts for _, counts in parts], axis=1)
    drawn = torch.empty(counts.shape, dtype=torch.from_numpy(counts).dtype, device=total.device)
    places, times, of_unit, middle = (
        torch.from_numpy(part).to(total.device) for part in (order, n, unit_v, shift)
    )
    drawn[:, places] = torch.from_numpy(counts).to(total.device)
    found = []
    for number in range(int(kind.max(initial=-1)) + 1):
        of = torch.from_numpy((kind == number).nonzero()[0]).to(total.device)
        weights = drawn[:, of].double() * times[of]
        away = total[of].div_(times[of, None]).sub_(middle)
        made = weights.sum(1), weights @ away, weights @ torch.linalg.vecdot(away, away), weights @ of_unit[of]
        found.append(Sums(*(part.cpu().numpy() for part in made)))
    return found


def draws(units: int, *, seed: int = 0, resamples: int = RESAMPLES) -> Draws:
    """Yield how often each unit is drawn when as many are drawn with replacement, a block of units at a time.

    First how many draws fall into each block, then which of the block's units they are: no matrix of all units is
    held. -> the block's first unit, (resamples, units of the block)
    """
    if units * resamples > KEPT:
        yield from _drawn(units, seed, resamples, BLOCK)
        return
    yield from _remembered(units, seed, resamples, BLOCK)


@lru_cache(maxsize=3)
def _remembered(
    units: int, seed: int, resamples: int, block: int
) -> tuple[tuple[int, NDArray[np.integer[Any]]], ...]:
    return tuple((first, in_bytes(counts)) for first, counts in _drawn(units, seed, resamples, block))


def in_bytes(counts: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """Return the counts in bytes, where they are that small: units are few times drawn."""
    return counts.astype(np.uint8) if counts.max(initial=0) < 256 else counts


def _drawn(units: int, seed: int, resamples: int, block: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    rng = np.random.default_rng(seed)
    firsts = np.arange(0, units, block)
    sizes = np.minimum(block, units - firsts)
    fall = rng.multinomial(units, sizes / units, size=resamples)
    for first, size, many in zip(firsts.tolist(), sizes.tolist(), fall.T, strict=True):
        places = np.repeat(np.arange(resamples) * size, many) + rng.integers(size, size=many.sum())
        yield first, np.bincount(places, minlength=resamples * size).reshape(resamples, size)


def _nothing(resamples: int, dim: int) -> Sums:
    return Sums(np.zeros(resamples), np.zeros((resamples, dim)), np.zeros(resamples), np.zeros(resamples))


def _add(sums: Sums, counted: NDArray[np.int64], away: Array, unit_v: Array) -> None:
    """Add a block of units to the sums. counted: (resamples, units), away: (units, dim), unit_v: (units,)"""
    weights = counted.astype(np.float64)
    sums.n[:] += weights.sum(axis=1)
    sums.away[:] += weights @ away
    sums.squares[:] += weights @ np.einsum("ij,ij->i", away, away)
    sums.within[:] += weights @ unit_v


def _errors(kinds: list[Sums], centre: Array) -> dict[str, float]:
    """Return the spread over resamples of what the sums say of each; a resample that drew nothing is left out."""
    if not kinds:
        return dict.fromkeys(ERRORS, float("nan"))
    n, away, squares, within = (np.sum(columns, axis=0) for columns in zip(*kinds, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = away / n[:, None]
        v_within = within / n
        v_between = np.maximum(squares / n - np.einsum("ij,ij->i", mean, mean), 0.0)
        mean += centre
        m = np.einsum("ij,ij->i", mean, mean)
        v = v_within + v_between
        part = dict(zip(PARTS, (m + v, m, v, v_within, v_between), strict=True))
        ratios = [part[above] / part[below] for above, below in SHARES.values()]
    return dict(zip(ERRORS, map(_spread, [*part.values(), *ratios]), strict=True))


def _spread(values: Array) -> float:
    values = values[np.isfinite(values)]
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
