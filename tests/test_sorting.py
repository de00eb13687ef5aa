"""Orders by counting, against numpy's sort by comparison."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from theodolite.hashing import mix
from theodolite.sorting import find_stable_order, order_hashes


@given(arrays(np.int64, st.integers(0, 40), elements=st.sampled_from([0, 1, 2**16 - 1, 2**16, 2**32 - 1])))
def test_codes_are_in_stable_order(codes: np.ndarray) -> None:
    assert find_stable_order(codes).tolist() == np.argsort(codes, kind="stable").tolist()


@pytest.mark.parametrize("outside", [-1, 2**32, 2**62])
def test_codes_of_more_bits_are_in_stable_order_too(outside: int) -> None:
    codes = np.array([5, outside, 5, 0])
    assert find_stable_order(codes).tolist() == np.argsort(codes, kind="stable").tolist()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**31 - 1)), max_size=40, unique=True),
    st.sampled_from([0, 2**20, 2**32 - 4]),
)
def test_hashes_with_equal_upper_halves_are_in_order(parts: list[tuple[int, int]], base: int) -> None:
    hashes = np.array([(base + upper) * 2**31 + lower for upper, lower in parts], dtype=np.int64)
    order = order_hashes(hashes)
    assert hashes[order].tolist() == sorted(hashes.tolist())
    assert sorted(order.tolist()) == list(range(len(hashes)))


def test_the_upper_halves_of_many_hashes_are_not_distinct() -> None:
    hashes = (mix(7, np.arange(300_000)) >> np.uint64(1)).astype(np.int64)
    by_upper = np.argsort(hashes >> 31, kind="stable")
    assert not np.array_equal(hashes[by_upper], np.sort(hashes)), "half of the bits must not be enough here"
    assert np.array_equal(order_hashes(hashes), np.argsort(hashes))
