"""The fold of a layer: all statistics at once, copied, renamed and queried."""

from __future__ import annotations

import torch
from tests.hard_cases import folded, hard, places

from theodolite.batch import Batch
from theodolite.statistics.cells import CELLS, POPULATIONS, cells_to_separate
from theodolite.statistics.fold import STATISTICS, LayerFold


def test_a_fold_is_its_statistics_side_by_side() -> None:
    case = hard(rows=800)
    whole = case.fold().state()
    apart = {
        f"{kind.name}.{name}": value for kind in STATISTICS for name, value in folded(kind, case).state().items()
    }
    assert whole.keys() == apart.keys()
    assert all(torch.equal(whole[name], apart[name]) for name in whole)


def test_a_copy_is_independent() -> None:
    case = hard(rows=400)
    fold = case.fold()
    before = {name: tensor.clone() for name, tensor in fold.state().items()}
    twin = fold.copy()
    twin.update(case.batches()[0])
    assert all(torch.equal(fold.state()[name], before[name]) for name in before)
    assert int(twin.scatter.n.sum()) > int(fold.scatter.n.sum())


def test_recode_renames_units_everywhere() -> None:
    case = hard(rows=400)
    fold = case.fold()
    codes = torch.arange(100).flip(0)
    fold.recode(codes)
    units = set(codes[case.places.unit].tolist())
    assert set(fold.moments.population(POPULATIONS["all"]).codes.tolist()) == units
    assert set(fold.sample.population(POPULATIONS["all"])["unit"].tolist()) <= units


def test_a_cell_with_only_non_finite_rows_is_kept() -> None:
    case = hard(rows=400)
    fold = LayerFold(case.frame)
    first = torch.tensor([True, True])
    fold.update(Batch(0, torch.full((2, case.frame.dim), torch.nan), places(torch.zeros(2), first)))
    assert [fold.holds(cell) for cell in range(len(CELLS))] == [cell == 1 for cell in range(len(CELLS))]


def test_gradients_are_not_kept() -> None:
    case = hard(rows=80)
    fold = LayerFold(case.frame)
    fold.update(Batch(0, case.states.requires_grad_(), case.places))
    assert not any(tensor.requires_grad for tensor in fold.state().values())


def test_populations_are_cells_and_cells_are_flags() -> None:
    first, massive, sink = ([cell for cell in range(len(CELLS)) if cell & flag] for flag in (1, 2, 4))
    assert set(POPULATIONS["all"]) == set(range(len(CELLS)))
    assert set(POPULATIONS["without-first"]) == set(POPULATIONS["all"]) - set(first)
    assert set(POPULATIONS["without-massive"]) == set(POPULATIONS["all"]) - set(massive)
    assert set(POPULATIONS["without-sinks"]) == set(POPULATIONS["without-massive"]) - set(sink)
    assert cells_to_separate(["without-first"]) == (True, False, False)
    assert cells_to_separate(["without-sinks"]) == (False, True, True)
