"""A prepared batch: its cells, their order, and the rows that are excluded and counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests import oracles
from tests.hard_cases import Case, hard, places
from tests.laws.strategies import Sample, samples
from torch import Tensor

from theodolite.batch import Batch
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import LONG, SHORT, Rows

NORM = 1e-6
"""Relative. A float32 norm of 24 coordinates errs by a few roundings of 6e-8."""


def rows_of(states: Tensor, first: Tensor | None = None, **frame: object) -> Rows:
    settings = {"centre": torch.zeros(states.shape[1])} | frame
    return Rows.of(Batch(0, states, places(torch.arange(len(states)) % 3, first)), Frame(**settings))


@given(sample=samples())
@settings(derandomize=True)
def test_every_finite_row_is_in_its_cell_and_every_other_one_is_counted(sample: Sample) -> None:
    rows, states, where, frame = (
        Rows.of(sample.batch, sample.frame),
        sample.batch.states,
        sample.batch.places,
        sample.frame,
    )
    finite = states.isfinite().all(dim=1)
    assert int(rows.nonfinite.sum()) == int((~finite).sum())
    assert int(rows.nonfinite[1]) == (int((~finite & where.first).sum()) if frame.separate_first else 0)
    by_key = {int(key): at for at, key in enumerate(where.key)}
    origin = torch.tensor([by_key[int(key)] for key in rows.places.key], dtype=torch.int64)
    assert sorted(origin.tolist()) == finite.nonzero().squeeze(1).tolist()
    assert torch.equal(rows.x.double(), states[origin].double())
    for name in ("unit", "group", "first", "context"):
        assert torch.equal(getattr(rows.places, name), getattr(where, name)[origin])
    assert rows.norms.numpy() == pytest.approx(oracles.norms(states[origin].double().numpy()), rel=NORM, abs=2e-38)
    end = 0
    for cell, part in rows.cells:
        assert part.start == end
        assert part.stop > part.start
        end = part.stop
        assert (rows.places.unit[part].diff() >= 0).all(), "units of a cell lie side by side"
        if frame.separate_first:
            assert (rows.places.first[part] == bool(cell & 1)).all()
        if frame.separate_massive:
            assert ((rows.norms[part] > frame.massive_above) == bool(cell & 2)).all()
        assert cell <= frame.separate_first + 2 * frame.separate_massive
    assert end == len(rows.x)
    assert [cell for cell, _ in rows.cells] == sorted({cell for cell, _ in rows.cells})


def test_cells_of_the_hard_case_are_those_of_the_definition() -> None:
    case = hard()
    rows = Rows.of(Batch(0, case.states, case.places), case.frame)
    counts = {cell: part.stop - part.start for cell, part in rows.cells}
    assert counts == {cell: int(count) for cell, count in enumerate(np.bincount(case.cells())) if count}
    assert set(counts) == {0, 3}


def test_the_bound_itself_is_not_massive() -> None:
    rows = rows_of(torch.tensor([[3.0, 4.0], [3.0, 4.1]]), massive_above=5.0)
    assert [cell for cell, _ in rows.cells] == [0, 2]


def test_half_precision_is_converted_exactly() -> None:
    states = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.bfloat16, torch.float16):
        rows = rows_of(states.to(dtype))
        assert rows.x.dtype == torch.float32
        assert torch.equal(rows.x.sort(dim=0).values, states.to(dtype).float().sort(dim=0).values)


def test_a_row_that_is_not_finite_changes_nothing_about_the_others() -> None:
    """Also the dtype: one NaN among float32 rows once turned the norms to float64, and a statistic failed."""
    case = hard(rows=400)
    spoilt = torch.cat([case.states, torch.full((1, case.frame.dim), math.nan)])
    whole = places(torch.cat([case.places.unit, torch.tensor([5])]))
    with_nan = Rows.of(Batch(0, spoilt, whole), case.frame)
    without = Rows.of(Batch(0, case.states, whole.take(torch.arange(400))), case.frame)
    for name in ("x", "norms", "centred", "inverse_norms"):
        a, b = getattr(with_nan, name), getattr(without, name)
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    assert with_nan.nonfinite.tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rows_that_are_not_finite_are_counted_by_whether_they_are_first(bad: float) -> None:
    states, first = torch.ones(6, 3), torch.tensor([True, False, True, False, True, False])
    states[:4, 1] = bad
    assert rows_of(states, first).nonfinite.tolist() == [2, 2, 0, 0, 0, 0]
    assert rows_of(states, first, separate_first=False).nonfinite.tolist() == [4, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("length", [1e-44, 1e-30, SHORT, LONG, 1e25, 3e38])
def test_norms_whose_squares_float32_cannot_hold(length: float) -> None:
    states = torch.zeros(2, 4)
    states[0, 0] = length
    states[1, :2] = length / math.sqrt(2)
    rows = rows_of(states, separate_massive=False)
    truth = oracles.norms(states.double().numpy())
    normal = length > torch.finfo(torch.float32).tiny
    assert rows.norms.tolist() == pytest.approx(truth if normal else [0, 0], rel=NORM)
    assert rows.inverse_norms.isfinite().all()
    assert rows.centred.isfinite().all()
    assert rows.nonfinite.sum() == 0


def test_an_empty_batch_has_no_cells() -> None:
    rows = rows_of(torch.zeros(0, 3))
    assert rows.cells == ()
    assert rows.centred.shape == (0, 3)
    assert rows.inverse_norms.shape == (0,)


def test_a_batch_in_order_is_not_copied() -> None:
    case: Case = hard(rows=400)
    order = case.places.by_unit()
    states, where = case.states[order], case.places.take(order)
    assert Rows.of(Batch(0, states, where), case.frame).x.data_ptr() == states.data_ptr()
