"""The sums by group of a field: each group has what a fold of its own rows would have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.hard_cases import Case, folded, hard

from theodolite.statistics.directions import Directions
from theodolite.statistics.field_groups import FieldGroups
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import Groups
from theodolite.statistics.norms import Norms
from theodolite.statistics.rows import Rows
from theodolite.statistics.scatter import Scatter

BY, MATRICES, ROWS = 4, 2, 10**6
FLOAT64 = 1e-12
"""Of the sum of sizes: float64 sums of a few thousand rows in another order."""
FLOAT32 = 2e-6
"""Of the sum of sizes: float32 products within a batch, as those of `Scatter` and `Groups`."""


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """Difficult rows, in which the last group has no rows of its own in the first 200."""
    made = hard(request.param)
    by = torch.randint(BY, (len(made.places),), generator=torch.Generator().manual_seed(1))
    by[:200] %= BY - 1
    frame = replace(made.frame, by_groups=BY, by_matrices=MATRICES, by_rows=ROWS)
    return Case(made.states, replace(made.places, by=by), frame)


def only(case: Case, group: int) -> Case:
    rows = (case.places.by == group).nonzero().squeeze(1)
    return Case(case.states[rows], case.places.take(rows), case.frame)


def test_each_group_has_the_sums_of_its_own_rows(case: Case) -> None:
    found = folded(FieldGroups, case)
    for group in range(BY):
        alone = only(case, group)
        directions, norms, groups, scatter = (folded(kind, alone) for kind in (Directions, Norms, Groups, Scatter))
        length = torch.linalg.vector_norm(alone.states.double(), dim=1).sum().item()
        for cell, sums in found.cells.items():
            assert torch.equal(sums.n[group], groups.n[cell])
            assert torch.equal(sums.directed[group], groups.directed[cell])
            assert torch.equal(sums.counts[group], norms.counts[cell])
            assert torch.equal(sums.zero[group], norms.zero[cell])
            assert sums.lowest[group] == norms.lowest[cell]
            assert sums.highest[group] == norms.highest[cell]
            torch.testing.assert_close(
                sums.directions[group].sum(0), directions.sum[cell], rtol=0, atol=FLOAT64 * len(alone.states)
            )
            torch.testing.assert_close(
                sums.direction_squares[group], directions.squares[cell], rtol=FLOAT64, atol=FLOAT64
            )
            torch.testing.assert_close(sums.sum[group], groups.sum[cell], rtol=0, atol=FLOAT32 * length)
            if group < MATRICES and int(scatter.n[cell]):
                y = torch.cat(scatter.vectors[cell]) if cell in scatter.vectors else None
                expected = torch.triu(scatter.products[cell] if y is None else y.T @ y)
                scale = float(expected.diagonal().sum())
                torch.testing.assert_close(
                    torch.triu(sums.products[group]), expected, rtol=0, atol=FLOAT32 * scale
                )
            else:
                assert group not in sums.products


def test_sums_are_exact_where_float32_is_not(case: Case) -> None:
    """V of a group survives a coordinate at 3,000; float32 sums of raw vectors lose it."""
    found = folded(FieldGroups, case).cells[0]
    x, mine = case.x, (case.cells() == 0) & (case.places.by.numpy() == 1)
    rows = x[mine]
    truth = np.square(rows - rows.mean(0)).sum(1).mean()
    n, total, squares = float(found.n[1].sum()), found.sum[1].sum(0), float(found.squares[1].sum())
    assert squares / n - float((total / n).square().sum()) == pytest.approx(truth, rel=1e-9)
    raw = rows.astype(np.float32)
    tempting = np.square(raw).sum() / np.float32(n) - np.square(raw.sum(0) / np.float32(n)).sum()
    assert abs(float(tempting) - truth) > 1e-3 * truth


def test_rows_that_are_not_finite_are_counted_by_group() -> None:
    states = torch.ones(6, 3)
    states[[1, 4, 5], 0] = torch.tensor([torch.nan, torch.inf, torch.nan])
    made = hard(torch.float32)
    rows = torch.arange(6)
    places = replace(made.places.take(rows), by=torch.tensor([0, 0, 1, 1, 1, 1]), first=torch.zeros(6).bool())
    case = Case(states, places, Frame(torch.zeros(3), by_groups=2))
    assert folded(FieldGroups, case).nonfinite.sum(0).tolist() == [1, 2]


def test_groups_can_be_joined(case: Case) -> None:
    """Group 3 becomes part of group 1, and what was 2 becomes 0: the same as if the rows had these groups."""
    codes = torch.tensor([2, 1, 0, 1])
    fold = LayerFold(case.frame)
    for batch in case.batches():
        fold.update(batch)
    fold.regroup(codes, 3, 3, ROWS)
    assert fold.field_groups is not None
    found, frame = fold.field_groups, replace(case.frame, by_groups=3, by_matrices=3)
    renamed = Case(case.states, replace(case.places, by=codes[case.places.by]), frame)
    expected = folded(FieldGroups, renamed)
    assert torch.equal(found.nonfinite, expected.nonfinite)
    for cell, sums in expected.cells.items():
        assert torch.equal(found.cells[cell].n, sums.n)
        assert torch.equal(found.cells[cell].counts, sums.counts)
        torch.testing.assert_close(found.cells[cell].sum, sums.sum, rtol=1e-9, atol=1e-6)
    # Groups 0 and 1 had a matrix, 2 and 3 had none: group 1 has rows without one now.
    assert set(found.cells[0].products) == {2}
    scale = float(expected.cells[0].products[2].diagonal().sum())
    torch.testing.assert_close(
        found.cells[0].products[2], expected.cells[0].products[2], rtol=0, atol=FLOAT32 * scale
    )
    for cell in expected.cells:
        assert_same_units(found, expected, cell)


def assert_same_units(found: FieldGroups, expected: FieldGroups, cell: int) -> None:
    assert torch.equal(found.without_units, expected.without_units)
    for group in range(found.frame.by_groups):
        mine, theirs = found.unit_sums(group, [cell]), expected.unit_sums(group, [cell])
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert torch.equal(mine.codes, theirs.codes)
            assert torch.equal(mine.n, theirs.n)
            torch.testing.assert_close(mine.sum, theirs.sum, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(mine.squares, theirs.squares, rtol=1e-9, atol=1e-9)


def test_sums_by_unit_are_those_of_the_rows(case: Case) -> None:
    """V_W of each group and cell, from its definition; float32 sums about 0 lose it."""
    found = folded(FieldGroups, case)
    for cell in found.cells:
        for group in range(BY):
            rows = (case.cells() == cell) & (case.places.by.numpy() == group) & np.isfinite(case.x).all(1)
            x, unit = case.x[rows], case.places.unit.numpy()[rows]
            sums = found.unit_sums(group, [cell])
            assert sums is not None
            codes, counts = np.unique(unit, return_counts=True)
            assert sums.codes.tolist() == codes.tolist()
            assert sums.n.tolist() == counts.tolist()
            spread = sums.squares.sum() - (sums.sum.square().sum(1) / sums.n).sum()
            within = sum(np.square(x[unit == one] - x[unit == one].mean(0)).sum() for one in codes)
            assert float(spread) == pytest.approx(within, rel=1e-9, abs=1e-12 * np.square(x).sum())


def test_only_the_first_groups_that_fit_have_sums_by_unit(case: Case) -> None:
    """The limit holds after every batch, and which groups remain does not depend on how the rows are merged."""
    whole = folded(FieldGroups, case)
    sizes = [
        sum(len(sums.codes) for cell in whole.cells if (sums := whole.unit_sums(group, [cell])) is not None)
        for group in range(BY)
    ]
    limits = {0: 0, sizes[0] - 1: 0, sizes[0]: 1, sizes[0] + sizes[1]: 2, sum(sizes) - 1: BY - 1, sum(sizes): BY}
    for limit, kept in limits.items():
        limited = Case(case.states, case.places, replace(case.frame, by_rows=limit))
        expected = [group >= kept for group in range(BY)]
        parts = []
        for batch in limited.batches():
            parts.append(FieldGroups(limited.frame))
            parts[-1].update(Rows.of(batch, limited.frame))
            assert sum(sums.units.size for sums in parts[-1].cells.values()) <= limit
        merged = FieldGroups(limited.frame)
        for part in reversed(parts):
            merged.merge(part)
        for found in (folded(FieldGroups, limited), merged):
            assert found.without_units.tolist() == expected
            for cell in found.cells:
                for group in range(kept):
                    assert torch.equal(found.unit_sums(group, [cell]).n, whole.unit_sums(group, [cell]).n)


def test_units_can_be_numbered_otherwise(case: Case) -> None:
    codes = torch.randperm(int(case.places.unit.max()) + 1, generator=torch.Generator().manual_seed(2))
    found = folded(FieldGroups, case)
    found.recode(codes)
    renamed = Case(case.states, replace(case.places, unit=codes[case.places.unit]), case.frame)
    expected = folded(FieldGroups, renamed)
    for cell in expected.cells:
        assert_same_units(found, expected, cell)


def test_sums_of_an_older_version_have_no_units(case: Case) -> None:
    state = {name: part for name, part in folded(FieldGroups, case).state().items() if "units" not in name}
    older = FieldGroups.restore(case.frame, state)
    older.merge(folded(FieldGroups, case))
    assert older.unit_sums(0, [0]) is None
    assert not any(sums.units.size for sums in older.cells.values())
