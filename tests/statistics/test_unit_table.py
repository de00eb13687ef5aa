"""The table that grows: rows, capacity, loading and renaming."""

from __future__ import annotations

import pytest
import torch

from theodolite.statistics.unit_table import CHUNK, SparseTable, UnitTable

GROWTH = 1.25
"""A table that must grow takes a quarter more than it needs, and sixteen rows."""


def test_rows_are_given_in_the_order_of_codes_and_kept() -> None:
    table = UnitTable(2)
    assert table.rows_for(torch.tensor([7, 3, 7])).tolist() == [1, 0, 1]
    assert table.rows_for(torch.tensor([9, 3, 5])).tolist() == [3, 0, 2]
    assert table.codes.tolist() == [3, 7, 5, 9]


def test_no_codes_request_no_rows() -> None:
    table = UnitTable(2)
    assert table.rows_for(torch.zeros(0, dtype=torch.int64)).shape == (0,)
    assert table.size == 0


def test_sums_run_over_chunks() -> None:
    rows = 2 * CHUNK + 5
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    codes, centre = torch.arange(rows) % 4, torch.tensor([1.0, -2.0, 0.5])
    table = UnitTable(3)
    table.add_rows(codes, x, centre)
    for code in range(4):
        y = x[codes == code] - centre
        torch.testing.assert_close(table.sum[code], y.sum(dim=0))
        torch.testing.assert_close(table.squares[code], y.square().sum())
        assert table.n[code] == len(y)


def test_memory_is_proportional_to_the_units_seen() -> None:
    table = UnitTable(2)
    for codes in torch.arange(1000).split(10):
        table.add_rows(codes, torch.ones(len(codes), 2), torch.zeros(2))
    assert table.size == 1000
    assert table.sum.untyped_storage().nbytes() <= (GROWTH * 1000 + 16) * 2 * 8


def test_a_loaded_table_continues_to_grow() -> None:
    table = UnitTable(1)
    table.load(
        torch.tensor([4, 2]), torch.tensor([1, 2]), torch.tensor([[1.0], [2.0]]).double(), torch.ones(2).double()
    )
    table.add_rows(torch.tensor([2, 0]), torch.tensor([[3.0], [5.0]]), torch.zeros(1))
    assert table.codes.tolist() == [4, 2, 0]
    assert table.n.tolist() == [1, 3, 1]
    assert table.sum.squeeze(1).tolist() == [1, 5, 5]


def test_squares_about_the_vectors_themselves_do_not_fall_below_zero() -> None:
    """Moving the centre onto the only vector of a unit leaves 0, or rounding of either sign."""
    random = torch.Generator().manual_seed(0)
    for vector in 1000 * torch.randn(50, 6, generator=random, dtype=torch.float64):
        table = UnitTable(6)
        table.add_rows(torch.tensor([3]), vector[None], torch.zeros(6))
        table.recentre(-vector)
        assert table.squares[0] >= 0
        torch.testing.assert_close(table.squares[0], torch.zeros(()).double(), rtol=0, atol=1e-8)


def test_codes_far_apart_have_the_same_sums() -> None:
    random = torch.Generator().manual_seed(1)
    dense, sparse = UnitTable(3), SparseTable(3)
    for _ in range(5):
        codes, x = torch.randint(9, (40,), generator=random), torch.randn(40, 3, generator=random)
        dense.add_rows(codes, x, torch.zeros(3))
        sparse.add_rows(codes * 2**40 + 1, x, torch.zeros(3))
    order = sparse.codes.argsort()
    for name in ("n", "sum", "squares"):
        assert torch.equal(getattr(sparse, name)[order], getattr(dense, name)[dense.codes.argsort()])
    assert sum(part.nbytes for part in vars(sparse).values() if isinstance(part, torch.Tensor)) < 4000


def test_removed_rows_leave_no_sums_behind() -> None:
    table = SparseTable(2)
    table.add_rows(torch.tensor([5, 2**50, 7]), torch.ones(3, 2), torch.zeros(2))
    table.select((table.codes == 2**50).nonzero().squeeze(1))
    assert (table.codes.tolist(), table.n.tolist()) == ([2**50], [1])
    table.add_rows(torch.tensor([5, 2**50]), torch.ones(2, 2), torch.zeros(2))
    sums = dict(zip(table.codes.tolist(), table.sum.tolist(), strict=True))
    assert sums == {2**50: [2.0, 2.0], 5: [1.0, 1.0]}
    assert dict(zip(table.codes.tolist(), table.squares.tolist(), strict=True))[5] == pytest.approx(2.0)
