"""The sums over attention logits: bins, quantiles, and any split equals the whole."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from theodolite.logit_bins import BINS, bin_edges, bin_logits
from theodolite.measures.attention_logits import PERCENTILES, logit_quantiles
from theodolite.models.attention_calls import AttentionCall
from theodolite.models.attention_sums import Span, empty_sums, sum_attention
from theodolite.statistics.attention import Attention
from theodolite.statistics.frame import Frame

HEADS, WIDTH = 3, 4
FRAME = Frame(torch.zeros(2), attention_heads=HEADS)


def make_call(lengths: list[int], seed: int, *, causal: bool = True, size: float = 1.0) -> AttentionCall:
    random = torch.Generator().manual_seed(seed)
    shape = (len(lengths), HEADS, max(lengths), WIDTH)
    query, key = (size * torch.randn(shape, generator=random) for _ in range(2))
    module: Any = SimpleNamespace(is_causal=causal)
    return AttentionCall(module, query, key, key, None, {}, query)


def count_all(lengths: list[int]) -> Tensor:
    return torch.ones(len(lengths), max(lengths), dtype=torch.bool)


def fold(*sums: dict[str, Tensor]) -> Attention:
    statistic = Attention(FRAME)
    for one in sums:
        rows: Any = SimpleNamespace(attention=one)
        statistic.update(rows)
    return statistic


def assert_close(a: Attention, b: Attention) -> None:
    for name, tensor in a.state().items():
        # Float64 sums of fewer than 100 terms below 10, in another order; counts and extremes exactly.
        exact = name in ("queries", "choices", "windows", "counts", "lowest", "highest")
        torch.testing.assert_close(tensor, b.state()[name], rtol=0, atol=0 if exact else 1e-11)


windows = st.lists(st.integers(1, 8), min_size=1, max_size=6)


@given(lengths=windows, cut=st.integers(0, 6), seed=st.integers(0, 99), causal=st.booleans())
def test_any_split_of_the_windows_equals_the_whole(lengths: list[int], cut: int, seed: int, causal: bool) -> None:
    call, spans = make_call(lengths, seed, causal=causal), [Span(i, 0, n) for i, n in enumerate(lengths)]
    whole = fold(sum_attention(call, spans, count_all(lengths)))
    parts = [sum_attention(call, some, count_all(lengths)) for some in (spans[:cut], spans[cut:])]
    assert_close(fold(*parts), whole)
    merged = fold(parts[1])
    merged.merge(fold(parts[0]))
    assert_close(merged, whole)


@given(lengths=windows, seed=st.integers(0, 99))
def test_packed_windows_equal_padded_ones(lengths: list[int], seed: int) -> None:
    padded = make_call(lengths, seed)
    parts = [[part[i, :, :n] for i, n in enumerate(lengths)] for part in (padded.query, padded.key)]
    query, key = (torch.cat(part, dim=1)[None] for part in parts)
    packed = AttentionCall(padded.module, query, key, key, None, {}, query)
    edges = np.cumsum([0, *lengths]).tolist()
    spans = [Span(0, a, b) for a, b in itertools.pairwise(edges)]
    found = sum_attention(packed, spans, torch.ones(1, edges[-1], dtype=torch.bool))
    expected = sum_attention(padded, [Span(i, 0, n) for i, n in enumerate(lengths)], count_all(lengths))
    assert_close(fold(found), fold(expected))


def test_an_empty_statistic_is_the_identity_and_restores() -> None:
    seen = fold(sum_attention(make_call([5, 3], 1), [Span(0, 0, 5), Span(1, 0, 3)], count_all([5, 3])))
    before = {name: tensor.clone() for name, tensor in seen.state().items()}
    seen.merge(Attention(FRAME))
    assert_close(seen, Attention.restore(FRAME, before))
    assert_close(fold(empty_sums(HEADS)), Attention(FRAME))


def test_its_size_is_the_expected_one() -> None:
    size = sum(tensor.nbytes for tensor in Attention(FRAME).state().values())
    assert Attention.expected_bytes(FRAME, 100, 2) == size


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50))
def test_a_logit_is_between_the_edges_of_its_bin(values: list[float]) -> None:
    logits, edges = torch.tensor(values), bin_edges()
    bins = bin_logits(logits).long()
    inside = logits.double()
    assert bool((edges[bins] <= inside).all())
    assert bool((inside <= edges[bins + 1]).all())


def test_bins_are_in_order_and_narrow() -> None:
    edges = bin_edges().numpy()
    assert len(edges) == BINS + 1
    assert (np.diff(edges) > 0).all()
    positive = edges[BINS // 2 + 1 :]
    assert (np.diff(positive) / positive[:-1]).max() <= 1 / 16 + 1e-12


@pytest.mark.parametrize("size", [0.3, 3.0, 30.0])
def test_quantiles_are_within_one_bin(size: float) -> None:
    lengths = [60] * 4
    call = make_call(lengths, 5, size=size)
    spans = [Span(i, 0, n) for i, n in enumerate(lengths)]
    state = fold(sum_attention(call, spans, count_all(lengths))).state()
    for head in range(HEADS):
        exact = [
            float(call.query[i, head, row].double() @ call.key[i, head, column].double()) / 2
            for i in range(4)
            for row in range(60)
            for column in range(row + 1)
        ]
        found = logit_quantiles(
            state["counts"].sum(0)[head].numpy(),
            float(state["lowest"][:, head].min()),
            float(state["highest"][:, head].max()),
        )
        assert found["logit_min"] == pytest.approx(min(exact), rel=1e-5)
        assert found["logit_max"] == pytest.approx(max(exact), rel=1e-5)
        for percent in PERCENTILES:
            expected = np.percentile(exact, percent)
            assert found[f"logit_p{percent:02d}"] == pytest.approx(
                expected, rel=1 / 16, abs=1 / 256 + 0.02 * size**2
            )


def test_a_head_without_logits_has_no_quantiles() -> None:
    assert np.isnan(list(logit_quantiles(np.zeros(BINS, dtype=np.int64), np.inf, -np.inf).values())).all()
