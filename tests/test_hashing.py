"""The hash that chooses: equal to its definition, well mixed, the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from theodolite.hashing import mix, mix_on, text_hash

WORD = 2**64 - 1
words = st.integers(min_value=-(2**63), max_value=WORD)


def naive(*parts: int) -> int:
    """The definition, in Python's own integers."""
    state = 0x9E3779B97F4A7C15
    for part in parts:
        state = ((state ^ (part & WORD)) + 0x9E3779B97F4A7C15) & WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & WORD
        state ^= state >> 31
    return state


@given(st.lists(words, max_size=4))
def test_equals_its_definition(parts: list[int]) -> None:
    assert int(mix(*parts)) == naive(*parts)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), words)
def test_arrays_are_hashed_element_by_element(parts: list[int], other: int) -> None:
    hashes = mix(other, np.array(parts, dtype=np.int64))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [naive(other, part) for part in parts]


def test_parts_broadcast_and_are_not_changed() -> None:
    documents, positions = np.arange(3, dtype=np.uint64), np.arange(4, dtype=np.uint64)
    hashes = mix(documents[:, None], positions)
    assert hashes.shape == (3, 4)
    assert hashes[2, 1] == mix(2, 1)
    assert documents.tolist() == [0, 1, 2]
    assert mix().shape == mix(1).shape == ()


def test_order_and_number_of_parts_matter() -> None:
    assert len({int(mix(*parts)) for parts in [(), (0,), (0, 0), (1,), (0, 1), (1, 0)]}) == 6


def test_only_integers_are_hashed() -> None:
    with pytest.raises(TypeError, match=r"mix\(\) requires integers \(got an array of float64\)"):
        mix(np.ones(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [(), (7,)], ids=["alone", "after a part"])
def test_every_bit_out_is_balanced(other: tuple[int, ...]) -> None:
    n = 2**17
    hashes = mix(*other, np.arange(n))
    ones = np.unpackbits(hashes.view(np.uint8)).reshape(n, 64).mean(axis=0)
    # The standard deviation of a share is 1/(2 sqrt n); 5 of them leave 64 bits a chance of 4e-5 to miss.
    assert np.abs(ones - 0.5).max() < 5 / (2 * np.sqrt(n))


@pytest.mark.parametrize("part", [0, 1])
def test_every_bit_in_moves_half_of_the_bits_out(part: int) -> None:
    n = 2**10
    parts = [np.arange(n, dtype=np.uint64), np.arange(n, dtype=np.uint64)[::-1]]
    for bit in range(64):
        flipped = list(parts)
        flipped[part] = parts[part] ^ np.uint64(1 << bit)
        moved = np.bitwise_count(mix(*parts) ^ mix(*flipped)).mean()
        # A mean of n binomials of 64: standard deviation 4/sqrt n = 0.125; 6 of them.
        assert abs(moved - 32) < 0.75


@pytest.mark.parametrize("shift", [0, 32, 56], ids=["low byte", "middle byte", "high byte"])
@pytest.mark.parametrize("step", [1, 2**20, 2**56 + 1])
def test_buckets_fill_evenly(shift: int, step: int) -> None:
    n, buckets = 2**16, 256
    hashes = mix(5, np.arange(n, dtype=np.uint64) * np.uint64(step))
    counts = np.bincount(((hashes >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=buckets)
    statistic = ((counts - n / buckets) ** 2 / (n / buckets)).sum()
    assert chi2.ppf(1e-5, buckets - 1) < statistic < chi2.ppf(1 - 1e-5, buckets - 1)


def test_pairs_of_small_numbers_do_not_collide() -> None:
    n = 1_000
    assert np.unique(mix(np.arange(n)[:, None], np.arange(n))).size == n * n


def test_texts_hash_as_pinned() -> None:
    assert text_hash("theodolite") == 0x6F44A31C82920D99
    assert text_hash("\ud800") != text_hash("\ud801")
    assert 0 <= text_hash("") <= WORD


def test_mixing_on() -> None:
    a, b = np.arange(6), np.arange(6)[::-1]
    assert (mix_on(mix(3, a), b) == mix(3, a, b)).all()
    assert (mix_on(mix(3), b) == mix(3, b)).all()
    assert int(mix_on(mix(3), -1)) == int(mix(3, -1))
    before = mix(a)
    mix_on(before, b)
    assert (before == mix(a)).all(), "it leaves what it is given alone"
