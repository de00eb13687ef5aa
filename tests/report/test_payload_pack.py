"""Packed columns come back as they were: what the page's script reads is what the table holds."""

import json
from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.report.payload.pack import pack_bytes, pack_counts, pack_floats, pack_short_floats, unpack

FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
HARD = np.array(
    [
        0.0,
        -0.0,
        np.nan,
        np.inf,
        -np.inf,
        3.4028235e38,
        -3.4028235e38,
        1e-45,
        -1e-45,
        1.1754942e-38,
        1.1754944e-38,
        1.0,
    ],
    dtype=np.float32,
)
# Three bytes keep 15 of the fraction's 23 bits, so what is rounded is off by half of the last of these.
SHORT = 2.0**-16
# Below the least normal number places are all the same size: half of 2^8 of the smallest.
SMALLEST = 128 * 2.0**-149


@given(st.lists(FLOAT, max_size=40))
def test_four_bytes_are_exact(values: list[float]) -> None:
    whole = np.array(values, dtype=np.float32)
    assert unpack(pack_floats(whole)).tobytes() == whole.tobytes()


@given(st.lists(FLOAT, max_size=40))
def test_three_bytes_are_close_and_keep_nan_and_infinity(values: list[float]) -> None:
    whole = np.array(values, dtype=np.float32)
    again = unpack(pack_short_floats(whole))
    finite = np.isfinite(whole)
    assert np.array_equal(again[~finite], whole[~finite], equal_nan=True)
    assert np.isfinite(again[finite]).all()
    off = np.abs(again[finite].astype(float) - whole[finite].astype(float))
    # The largest numbers are cut, not rounded, as they would round to infinity.
    near_the_end = np.abs(whole[finite]) > 3.402e38
    assert (off <= np.abs(whole[finite].astype(float)) * SHORT * (1 + near_the_end) + SMALLEST).all()


def test_edge_case_numbers() -> None:
    again = unpack(pack_short_floats(HARD))
    assert np.isnan(again[2])
    assert list(again[3:5]) == [np.inf, -np.inf]
    assert np.isfinite(again[5:7]).all()
    assert np.signbit(again).tolist()[:2] == [False, True]
    assert again[-1] == 1


def test_a_nan_with_its_payload_in_the_last_byte_stays_nan() -> None:
    # Cut to three bytes it would read as infinity.
    odd = np.array([0x7F800001, 0xFF800001, 0x7F8000FF], dtype="<u4").view("<f4")
    assert np.isnan(unpack(pack_short_floats(odd))).all()


def test_truncation_without_rounding_has_twice_the_error() -> None:
    whole = np.float32(1 + 255 * 2.0**-23)
    cut = (whole.view("<u4") & np.uint32(0xFFFFFF00)).view("<f4")
    assert abs(float(cut) - float(whole)) > SHORT
    assert abs(float(unpack(pack_short_floats([whole]))[0]) - float(whole)) <= SHORT


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20), st.lists(st.integers(0, 255), max_size=20))
def test_counts_and_marks_are_exact(many: list[int], few: list[int]) -> None:
    assert unpack(pack_counts(many)).tolist() == many
    assert unpack(pack_bytes(few)).tolist() == few


@given(st.lists(st.integers(0, 2**53), max_size=20))
def test_counts_past_four_bytes_are_exact_too(many: list[int]) -> None:
    """The tempting way, always four bytes, would store 705,032,704 for 5,000,000,000."""
    for given_ in (many, np.array(many, dtype=np.int64), np.array(many, dtype=float)):
        assert unpack(pack_counts([5_000_000_000, *given_])).tolist() == [5_000_000_000, *many]
    assert pack_counts([2**32 - 1])["kind"] == "u4"
    assert pack_counts([2**32])["kind"] == "f8"


@pytest.mark.parametrize("make", [pack_floats, pack_short_floats, pack_counts, pack_bytes])
def test_empty_arrays_and_matrices_are_packed_by_row(make: object) -> None:
    assert callable(make)
    assert make([])["count"] == len(unpack(make([]))) == 0
    matrix = np.arange(6).reshape(2, 3)
    for given_ in (matrix, matrix.T.copy().T, np.asfortranarray(matrix)):
        assert unpack(make(given_)).tolist() == [0, 1, 2, 3, 4, 5]
        assert make(given_)["count"] == 6


def test_packed_data_is_json_and_has_the_stated_size() -> None:
    for packed, width in (
        (pack_floats([1, 2]), 4),
        (pack_short_floats([1, 2]), 3),
        (pack_counts([1, 2]), 4),
        (pack_bytes([1, 0]), 1),
    ):
        assert json.loads(json.dumps(packed)) == packed
        assert len(b64decode(packed["data"])) == 2 * width
