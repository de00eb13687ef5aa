"""The rows of which products are computed: chunks of equal length, and only those that are needed."""

from __future__ import annotations

import pytest
import torch

from theodolite.statistics.cuda import gram
from theodolite.statistics.cuda.gram import STEP, Chunks, GramFormat, GramRows, chunk_rows


def gram_format(dim: int) -> GramFormat:
    return GramFormat.of(torch.bfloat16, torch.zeros(dim), torch.zeros(0, dtype=torch.int64), torch.device("cpu"))


@pytest.mark.parametrize(("others", "first"), [(63_000, 50), (4097, 0), (64, 64), (1, 0), (0, 5000)])
@pytest.mark.parametrize("dim", [16, 2048])
def test_chunks_are_of_equal_length_with_little_padding(dim: int, others: int, first: int) -> None:
    made = GramRows.allocate(gram_format(dim), others, first, torch.device("meta"))
    length, of_others, of_first, _ = made.chunks
    assert made.rows.shape[1] == length
    assert made.chunks.rows == made.rows.shape[0] * length
    assert length % STEP == 0
    assert length <= chunk_rows(dim)
    assert len(of_others) * length >= others
    assert len(of_first) * length >= first
    longer = max(others, first)
    assert len(max(of_others, of_first, key=len)) == -(-longer // chunk_rows(dim))
    padding = len(max(of_others, of_first, key=len)) * length - longer
    assert padding < STEP * len(max(of_others, of_first, key=len))
    assert made.gap == len(of_others) * length - others


def test_only_the_parts_that_are_asked_for_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    dim, length = 16, chunk_rows(16)
    monkeypatch.setattr(gram, "PARTIAL_BYTES", 2 * 4 * dim * dim)  # two chunks at a time
    made = GramRows.allocate(gram_format(dim), 3 * length, 10, torch.device("cpu"))
    rounds = [(len(chunks), part, last) for chunks, _, part, last in made.rounds([0])]
    assert rounds == [(2, 0, False), (1, 0, True)]
    assert [part for _, _, part, _ in made.rounds()] == [0, 0, 1]
    assert not list(made.rounds([]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_held_rows_of_the_same_dtype_are_multiplied_where_they_are(dtype: torch.dtype) -> None:
    held = torch.ones(Chunks.of(16, 100, 10).rows, 16, dtype=dtype)
    made = GramRows.allocate(gram_format(16), 100, 10, held.device, held)
    assert made.in_place == (made.rows.data_ptr() == held.data_ptr()) == (dtype == torch.bfloat16)
    made.rows.fill_(1)
    made.clear_gaps(110)
    places = made.place(torch.arange(110), 100)
    assert made.rows.flatten(0, 1).sum() == 16 * 110 == made.rows.flatten(0, 1)[places].sum()
