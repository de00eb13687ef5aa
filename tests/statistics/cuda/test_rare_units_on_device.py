"""Units without a vector on a device: the same sums as on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.statistics.cuda.test_fold_on_device import Way, fold_of, small, way

from theodolite.statistics.cells import CELLS
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.rare_units import KeptUnits

__all__ = ["way"]
NORMS = 1e-6
"""Relative: on a device |x|^2 is the square of a float32 norm."""


def keep_some(frame: Frame, units: int) -> Frame:
    """Leave every other unit without a vector."""
    codes = torch.arange(units)
    return replace(frame, kept=KeptUnits(2, codes, torch.ones_like(codes), (codes % 2).double()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_units_without_a_vector_have_the_sums_of_the_cpu(way: Way, dtype: torch.dtype) -> None:
    case = small(dtype)
    frame = keep_some(case.frame, int(case.unit.max()) + 1)
    expected = LayerFold(frame)
    for batch in case.batches(257):
        expected.update(batch)
    fold = fold_of(case, way, frame)
    found = fold.to_cpu()
    check(found, expected)
    again = GpuFold(frame, way.context())
    again.load({name: part.clone() for name, part in found.state().items()})
    check(again.to_cpu(), expected)
    check(fold.hand_over(), expected)


def check(found: LayerFold, expected: LayerFold) -> None:
    assert found.rare_units is not None
    assert expected.rare_units is not None
    assert any(table.size for table in expected.rare_units.tables[1:])  # also rare cells
    for cell in range(len(CELLS)):
        ours, theirs = (fold.moments.population([cell]) for fold in (found, expected))
        assert torch.equal(ours.codes, theirs.codes)
        assert torch.equal(ours.n, theirs.n)
        torch.testing.assert_close(ours.sum.cpu(), theirs.sum, rtol=1e-9, atol=1e-6)
        rare, truth = found.rare_units.population([cell]), expected.rare_units.population([cell])
        assert torch.equal(rare.codes, truth.codes)
        assert torch.equal(rare.n, truth.n)
        torch.testing.assert_close(rare.lengths, truth.lengths, rtol=NORMS, atol=0)
        torch.testing.assert_close(rare.sum, truth.sum, rtol=1e-9, atol=1e-6)
        assert rare.squares == pytest.approx(truth.squares, rel=1e-9)
        assert torch.equal(found.unit_groups.tables[cell].n, expected.unit_groups.tables[cell].n)
