"""Numbers of a layer without some of its positions, with errors of the numbers and of their differences.

A survey has errors of the mean cosine, but none of the measures of a spectrum: these need a scatter matrix for
each group of documents. Here every number is computed again from a sample of vectors without each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.batch import GROUPS
from theodolite.measures.resampling import group_error
from theodolite.measures.spectrum import anisotropy_svd, effective_rank, eigenvalues

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
FIRST, SINK, DELIMITER = 1, 2, 4
KINDS = range(8)
"""The kind of a position: FIRST in its window, plus SINK if it is massive at any layer, plus DELIMITER."""
POPULATIONS = {
    "all": 0,
    "without-first": FIRST,
    "without-sinks": SINK,
    "without-delimiters": DELIMITER,
    "rest": FIRST | SINK | DELIMITER,
}
"""The kinds of position that each population leaves out."""
MEASURES = ("mean_cosine", "anisotropy_svd", "effective_rank", "q")


class Sums(NamedTuple):
    """Sums over positions by kind and group of documents, about a centre."""

    n: Array  # (kinds, groups), the sum of the weights
    pairs: Array  # (kinds, groups), the sum of the squared weights
    sum: Array  # (kinds, groups, dim)
    scatter: Array  # (kinds, groups, dim, dim)
    directions: Array  # (kinds, groups, dim), of x/|x|
    squares: Array  # (kinds, groups), of |x|^2 about 0


def add_up(
    vectors: NDArray[np.floating], kind: NDArray[np.int64], group: NDArray[np.int64], weight: Array | None = None
) -> Sums:
    """Return the sums of the vectors of a layer, about the median of every tenth. (rows, dim), (rows,) each

    A row of weight w counts as w positions.
    """
    x = vectors.astype(np.float64)
    weight = np.ones(len(x)) if weight is None else weight
    centred, norms = x - np.median(x[::10], axis=0), np.linalg.norm(x, axis=1)
    units = x / np.where(norms > 0, norms, 1.0)[:, None]
    dim, shape = x.shape[1], (len(KINDS), GROUPS)
    found = Sums(
        np.zeros(shape), np.zeros(shape), np.zeros((*shape, dim)), np.zeros((*shape, dim, dim)),
        np.zeros((*shape, dim)), np.zeros(shape),
    )  # fmt: skip
    for place in set(zip(kind.tolist(), group.tolist(), strict=True)):
        rows = (kind == place[0]) & (group == place[1])
        y, w = centred[rows], weight[rows]
        found.n[place], found.pairs[place], found.sum[place] = w.sum(), w @ w, w @ y
        found.scatter[place] = (w[:, None] * y).T @ y
        found.directions[place], found.squares[place] = w @ units[rows], w @ norms[rows] ** 2
    return found


def leave_one_out(parts: Array) -> list[Any]:
    """Return the sum of all parts except each, by addition only. (groups, ...) -> groups arrays (...)

    >>> leave_one_out(np.array([1.0, 2.0, 4.0]))
    [np.float64(6.0), np.float64(5.0), np.float64(3.0)]
    """
    before, after = parts[0] * 0, [parts[0] * 0]
    for part in parts[:0:-1]:
        after.append(after[-1] + part)
    found = []
    for part in parts:
        found.append(before + after.pop())
        before = before + part
    return found


def measure(n: float, pairs: float, total: Array, scatter: Array, directions: Array, squares: float) -> Array:
    """Return MEASURES of positions with these sums. The mean cosine is over pairs of different rows."""
    mean = total / n
    spectrum = eigenvalues(scatter / n - np.outer(mean, mean))
    cosine = (directions @ directions - pairs) / (n * n - pairs)
    return np.array([cosine, anisotropy_svd(spectrum), effective_rank(spectrum), squares / n])


def measure_populations(sums: Sums) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return MEASURES of each population over all documents, and without each group that has any.

    Sums are added, never subtracted: without one long vector, its rounding error would remain.
    -> (measures,), (groups, measures)
    """
    held = np.flatnonzero(sums.n.sum(axis=0))
    whole: dict[str, Array] = {}
    without: dict[str, Array] = {}
    known: dict[tuple[int, ...], str] = {}
    for name, excluded in POPULATIONS.items():
        kinds = [kind for kind in KINDS if not kind & excluded and sums.n[kind].any()]
        same = known.setdefault(tuple(kinds), name)
        if same != name:
            whole[name], without[name] = whole[same], without[same]
            continue
        by_group = [np.stack([_add(part, kinds, sums.n, group) for group in held]) for part in sums]
        whole[name] = measure(*(part.sum(axis=0) for part in by_group))
        without[name] = np.stack([measure(*left) for left in zip(*map(leave_one_out, by_group), strict=True)])
    return whole, without


def _add(part: Array, kinds: Sequence[int], n: Array, group: int) -> Any:
    """Return the sum over some kinds in a group; empty ones, which are most, are not read."""
    total = np.zeros_like(part[0, group])
    for kind in kinds:
        if n[kind, group]:
            total = total + part[kind, group]
    return total


Row = dict[str, float | int | str]


def list_rows(sums: Sums, whole: dict[str, Array], without: dict[str, Array]) -> Iterator[Row]:
    """Yield one row per population: each measure, its difference from that of all positions, and their errors."""
    for name, excluded in POPULATIONS.items():
        row: Row = {"population": name}
        row["n"] = round(sum(float(sums.n[kind].sum()) for kind in KINDS if not kind & excluded))
        errors = group_error(without[name])
        apart, apart_errors = whole[name] - whole["all"], group_error(without[name] - without["all"])
        for place, measured in enumerate(MEASURES):
            row[measured], row[f"{measured}_se"] = whole[name][place], errors[place]
            if name != "all":
                row[f"{measured}_difference"] = apart[place]
                row[f"{measured}_difference_se"] = apart_errors[place]
        yield row


def list_shapes(whole: Sequence[dict[str, Array]], without: Sequence[dict[str, Array]]) -> Iterator[Row]:
    """Yield for each population, from the embeddings to the last block, the bell and the growth, with errors.

    The bell is the highest SVD anisotropy between the two ends minus that of the higher end. The growth is log10
    of Q at the last block over Q at the first. The layers are not chosen again without a group of documents.
    """
    bell, growth = MEASURES.index("anisotropy_svd"), MEASURES.index("q")
    for name in POPULATIONS:
        # (layers, measures), (layers, groups, measures)
        of_all, of_groups = np.stack([one[name] for one in whole]), np.stack([one[name] for one in without])
        if len(of_all) < 3:
            continue
        peak = 1 + int(of_all[1:-1, bell].argmax())
        end = max((0, len(of_all) - 1), key=lambda layer: of_all[layer, bell])
        apart = of_all[peak, bell] - of_all[end, bell]
        error = group_error(of_groups[peak, :, bell] - of_groups[end, :, bell])
        yield {"population": name, "shape": "bell", "value": apart, "se": float(error), "layer": peak}
        values, of_groups_too = (
            np.log10(part[-1] / part[1]) for part in (of_all[:, growth], of_groups[:, :, growth])
        )
        error = group_error(of_groups_too)
        yield {
            "population": name,
            "shape": "growth",
            "value": values,
            "se": float(error),
            "layer": len(of_all) - 1,
        }


def list_norms(norms: Array, kind: NDArray[np.int64], massive: Flags, weight: Array) -> Iterator[Row]:
    """Yield one row per sort of position: how many there are, how many are massive here, and their norms."""
    first, sink, delimiter = ((kind & flag) > 0 for flag in (FIRST, SINK, DELIMITER))
    sorts = {"first": first, "other sinks": sink & ~first, "delimiters": delimiter & ~sink & ~first,
             "others": ~(first | sink | delimiter)}  # fmt: skip
    for name, rows in sorts.items():
        low, middle, high = np.quantile(norms[rows], [0.0, 0.5, 1.0]) if rows.any() else [np.nan] * 3
        yield {
            "sort": name, "n": round(float(weight[rows].sum())), "massive": int((rows & massive).sum()),
            "norm_min": low, "norm_p50": middle, "norm_max": high,
        }  # fmt: skip
