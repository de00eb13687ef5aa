"""The order that puts rows of one unit side by side, against the sort that defines it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from theodolite.batch import Places


def places(unit: Tensor, first: Tensor) -> Places:
    rows = torch.arange(len(unit))
    return Places(unit, rows, first, rows, rows, rows)


@pytest.mark.parametrize("most", [1, 300, 2**16 - 1, 2**16, 200_000, 2**32 - 1, 2**32, 2**39])
@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_by_unit_is_a_stable_sort_by_flag_and_unit(most: int, rows: int) -> None:
    chance = torch.Generator().manual_seed(most % 1000)
    unit = torch.randint(most + 1, (rows,), generator=chance)
    unit[: rows // 2] %= 7  # many of a kind: what is not stable would show
    first = torch.rand(rows, generator=chance) < 0.1
    for flags in (first, torch.zeros_like(first), torch.ones_like(first)):
        order = places(unit, flags).by_unit()
        assert torch.equal(order, torch.argsort(flags * 2**40 + unit, stable=True))
        assert order.dtype == torch.int64


def test_rows_are_selected_by_index_and_by_mask() -> None:
    unit = torch.tensor([5, 6, 7, 8])
    some = places(unit, unit > 6)
    marked = torch.tensor([True, False, False, True])
    assert some.take(torch.tensor([3, 0])).unit.tolist() == [8, 5]
    assert some.take(marked).unit.tolist() == [5, 8]
    assert some.take(marked).first.tolist() == [False, True]
    taken = some.take(torch.arange(4))
    taken.unit[0] = 99
    assert some.unit[0] == 5, "what is taken is a copy"
