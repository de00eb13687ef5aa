"""Find all statistics, and compare two states: exactly where possible, otherwise within a named tolerance."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import torch
from tests.laws.strategies import Sample
from torch import Tensor

import theodolite.statistics
from theodolite.batch import Batch
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic

FLOAT64 = 1e-13
"""Of n L^p. A float64 sum of 60 terms, taken in another order, moves by at most 60 eps = 1.3e-14 of the sum of
their sizes; a second such sum, a product of 24 terms and a recentring are within the rest."""
FLOAT32 = 2e-6
"""Of n L^p. Within a batch these sum in float32: x - c rounds once (6e-8), a product of it twice that, and a sum
of 60 terms by at most 60 times as much in the worst order; a tenth of that is seen."""
TOLERANCE = {
    "moments": FLOAT64,
    "directions": FLOAT32,
    "scatter": FLOAT32,
    "groups": FLOAT32,
    "field_groups": FLOAT32,
    "contextuality": FLOAT64,
    "clusters": FLOAT64,
    "sentences": FLOAT64,
    "sequences": FLOAT64,
    "frequent_units": FLOAT64,
    "rare_units": FLOAT64,
}
"""By statistic, for tensors of floats; all others must agree bit for bit."""
DIRECTED = {("directions", "sum"), ("directions", "squares"), ("groups", "directions")}
"""Sums of unit vectors, whose size does not depend on the norms of the states."""


def discovered() -> list[type[Statistic]]:
    """Return all concrete statistics of the package, sorted by name."""
    for module in pkgutil.walk_packages(theodolite.statistics.__path__, "theodolite.statistics."):
        importlib.import_module(module.name)
    found, queue = [], [Statistic]
    while queue:
        for kind in queue.pop().__subclasses__():
            queue.append(kind)
            if not inspect.isabstract(kind) and kind.__module__.startswith("theodolite."):
                found.append(kind)
    return sorted(found, key=lambda kind: kind.name)


def fold(kind: type[Statistic], frame: Frame, *batches: Batch) -> Statistic:
    """Return a new statistic, updated with the batches."""
    statistic = kind(frame)
    feed(statistic, *batches)
    return statistic


def feed(statistic: Statistic, *batches: Batch) -> None:
    for batch in batches:
        statistic.update(Rows.of(batch, statistic.frame))


def merged(first: Statistic, *others: Statistic) -> Statistic:
    """Return a copy of the first, with the others merged into it one by one."""
    total = type(first).restore(first.frame, snapshot(first))
    for other in others:
        total.merge(other)
    return total


def snapshot(statistic: Statistic) -> State:
    """Return a copy of its state, which later updates do not change."""
    return {name: tensor.clone() for name, tensor in statistic.state().items()}


def canonical(state: State) -> State:
    """Return the state with units sorted by code and vectors by value, since their order has no meaning."""
    ordered = dict(state)
    for name, codes in state.items():
        if name.endswith(".vectors"):
            ordered[name] = codes[np.lexsort(codes.numpy().T[::-1])]
        if name.endswith(".codes"):
            cell = name.removesuffix("codes")
            order = codes.argsort()
            ordered |= {key: value[order] for key, value in state.items() if key.startswith(cell)}
    return ordered


def identical(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def assert_identical(a: State, b: State) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert identical(a[name], b[name]), f"{name}: {a[name]} is not {b[name]}"


def assert_same(kind: type[Statistic], a: State, b: State, rows: int, reach: float) -> None:
    """Check equality within the statistic's tolerance; `reach` bounds the distance of a row from 0 or a centre."""
    a, b = canonical(a), canonical(b)
    if kind.name not in TOLERANCE:
        assert_identical(a, b)
        return
    assert a.keys() == b.keys()
    for name in a:
        if not a[name].is_floating_point():
            assert identical(a[name], b[name]), name
            continue
        bound = TOLERANCE[kind.name] * rows * size_of_term(kind, name, reach)
        apart = torch.where(a[name] == b[name], 0.0, (a[name] - b[name]).abs())  # of groups without rows: infinite
        error = apart.max().item() if apart.numel() else 0.0
        assert error <= bound, f"{kind.name} {name}: off by {error:.3g}, {bound:.3g} is allowed"


def size_of_term(kind: type[Statistic], name: str, reach: float) -> float:
    """Return a bound for one row's contribution to a sum: L for a vector, L^2 for a square, 1 for a direction."""
    directed = (kind.name, name) in DIRECTED or name.endswith((".directions", ".direction_squares"))
    if directed or kind.name in ("contextuality", "sentences"):
        return 1.0
    if kind.name == "sequences":  # angles in degrees
        return 180.0
    return reach**2 if name.endswith(("squares", "products", "lengths")) else reach


def reach_of(*samples: Sample) -> float:
    return max(sample.reach for sample in samples)
