"""Q, M and V of every unit against two passes in higher precision, and the algorithms that tempt and fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests import oracles
from tests.hard_cases import BOS, SEEN_ONCE, Case, folded, hard

from theodolite.measures.decomposition import UnitMoments, unit_moments
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.frame import Frame
from theodolite.statistics.moments import Moments, UnitSums

OF_V, OF_Q = 1e-9, 1e-12
"""What the instrument promises of V(X_t): a float64 sum errs by 1e-16 of each term and the terms are as large as Q
where the centre is bad, as V where it is good; three digits are left for long sums."""
GOOD_CENTRE = 1e-12
"""Of V alone: about a good centre the terms are no larger than V itself, and nothing of Q is lost."""
LOOSE_OF_V, LOOSE_OF_Q = 1e-6, 1e-9
"""What is promised where sums within a batch are float32: six digits of V, and three more of Q for the centre."""

Errors = NDArray[np.float64]


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float64], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return hard(request.param)


@pytest.fixture(scope="module")
def in_float32() -> Case:
    return hard()


def measured(sums: UnitSums) -> UnitMoments:
    return unit_moments(sums.n.numpy(), sums.sum.numpy(), sums.squares.numpy(), sums.centre.numpy())


def errors(sums: UnitSums, case: Case, rows: NDArray[np.bool_]) -> tuple[Errors, Errors, Errors]:
    """|error of V|, V and Q of every unit of these rows."""
    truth = oracles.qmv_by_unit(case.x[rows], case.unit[rows])
    assert sums.codes.tolist() == list(truth)
    v, q = (np.array([getattr(parts, name) for parts in truth.values()]) for name in "vq")
    return np.abs(measured(sums).v - v), v, q


def within(error: Errors, v: Errors, q: Errors, of_v: float = OF_V, of_q: float = OF_Q) -> NDArray[np.bool_]:
    return error <= of_v * v + of_q * q


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("centre", ["median", "zero"])
def test_v_of_every_unit_is_right(case: Case, population: str, centre: str) -> None:
    frame = case.frame if centre == "median" else replace(case.frame, centre=torch.zeros(case.frame.dim))
    sums = folded(Moments, case, frame).population(POPULATIONS[population])
    assert within(*errors(sums, case, case.belongs(population))).all()


@pytest.mark.parametrize("population", POPULATIONS)
def test_q_and_m_of_every_unit_are_right(case: Case, population: str) -> None:
    rows = case.belongs(population)
    found = measured(folded(Moments, case).population(POPULATIONS[population]))
    truth = oracles.qmv_by_unit(case.x[rows], case.unit[rows]).values()
    assert found.q == pytest.approx([parts.q for parts in truth], rel=OF_Q)
    assert found.m == pytest.approx([parts.m for parts in truth], rel=OF_Q)


def test_about_a_good_centre_nothing_of_q_is_lost(in_float32: Case) -> None:
    ordinary = in_float32.cells() == 0
    error, v, _ = errors(folded(Moments, in_float32).population([0]), in_float32, ordinary)
    assert (error <= GOOD_CENTRE * v).all()
    far = replace(in_float32.frame, centre=torch.zeros(in_float32.frame.dim))
    error, v, _ = errors(folded(Moments, in_float32, far).population([0]), in_float32, ordinary)
    assert (error > GOOD_CENTRE * v).any()


def test_a_unit_seen_once_has_no_spread_at_all(case: Case) -> None:
    sums = folded(Moments, case).population(POPULATIONS["all"])
    at = sums.codes.tolist().index(SEEN_ONCE)
    assert sums.n[at] == 1
    assert measured(sums).v[at] == 0


def test_equal_vectors_have_no_spread_at_all() -> None:
    vector = torch.randn(48, generator=torch.Generator().manual_seed(5)) * 100
    case = hard()
    same = replace(case, states=vector.expand(len(case.states), -1))
    sums = folded(Moments, same).population(POPULATIONS["all"])
    assert (measured(sums).v == 0).all()


def test_batch_size_does_not_matter(in_float32: Case) -> None:
    few, many = (folded(Moments, in_float32, size=size).population(POPULATIONS["all"]) for size in (3000, 7))
    assert few.codes.equal(many.codes)
    assert few.n.equal(many.n)
    difference, v, q = np.abs(measured(few).v - measured(many).v), measured(few).v, measured(few).q
    assert within(difference, v, q).all()


def test_float32_sums_of_raw_vectors_fail(in_float32: Case) -> None:
    """E|x|^2 - |E x|^2 in float32: what one writes first."""
    ordinary = in_float32.cells() == 0
    sums = float32_sums(in_float32, torch.zeros(in_float32.frame.dim), ordinary)
    error, v, q = errors(sums, in_float32, ordinary)
    spread = v > 0  # of a single occurrence V is 0 by definition
    assert not within(error, v, q, LOOSE_OF_V, LOOSE_OF_Q)[spread].any()
    assert np.median(error[spread] / v[spread]) > 1e-3


def test_a_centre_with_massive_rows_in_its_mean_fails(in_float32: Case) -> None:
    """Float32 sums can do about the median, and cannot about the mean, which one row in forty pulls away."""
    ordinary = in_float32.cells() == 0
    about = {"median": in_float32.frame.centre, "mean": in_float32.states.mean(dim=0)}
    held = {
        name: within(
            *errors(float32_sums(in_float32, centre, ordinary), in_float32, ordinary), LOOSE_OF_V, LOOSE_OF_Q
        )
        for name, centre in about.items()
    }
    assert held["median"].all()
    assert not held["mean"].all()


def test_populations_by_subtraction_fail(in_float32: Case) -> None:
    """All minus first is 'without-first' on paper; of a unit that is nearly always first, rounding is left."""
    moments, ordinary = folded(Moments, in_float32), ~in_float32.places.first.numpy()
    whole, first = moments.population([0, 1, 2, 3]), moments.population([1, 3])
    at = [whole.codes.tolist().index(code) for code in first.codes.tolist()]
    n, total, squares = whole.n.clone(), whole.sum.clone(), whole.squares.clone()
    n[at] -= first.n
    total[at] -= first.sum
    squares[at] -= first.squares
    kept = n > 0
    left = UnitSums(whole.codes[kept], n[kept], total[kept], squares[kept], whole.centre)
    held = within(*errors(left, in_float32, ordinary))
    assert not held[left.codes.tolist().index(BOS)]
    assert within(*errors(moments.population(POPULATIONS["without-first"]), in_float32, ordinary)).all()


def test_recode_gives_every_unit_its_new_name(in_float32: Case) -> None:
    moments = folded(Moments, in_float32)
    before = moments.population(POPULATIONS["all"])
    codes = torch.randperm(200, generator=torch.Generator().manual_seed(3))
    moments.recode(codes)
    after = moments.population(POPULATIONS["all"])
    order = codes[before.codes].argsort()
    assert after.codes.equal(codes[before.codes][order])
    assert after.sum.equal(before.sum[order])
    assert after.n.equal(before.n[order])


def float32_sums(case: Case, centre: torch.Tensor, rows: NDArray[np.bool_]) -> UnitSums:
    """Sums of x - c and |x - c|^2 in float32 from beginning to end."""
    kept = torch.from_numpy(rows)
    y, codes = case.states[kept].float() - centre, case.places.unit[kept]
    known, at = codes.unique(return_inverse=True)
    total = torch.zeros(len(known), case.frame.dim).index_add_(0, at, y)
    squares = torch.zeros(len(known)).index_add_(0, at, y.square().sum(dim=1))
    return UnitSums(known, at.bincount(), total.double(), squares.double(), centre.double())


def test_an_empty_population_has_no_units() -> None:
    sums = Moments(Frame(torch.zeros(3))).population(POPULATIONS["all"])
    assert sums.codes.shape == (0,)
    assert sums.sum.shape == (0, 3)
