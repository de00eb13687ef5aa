"""Vectors in 8 bits are asked about, and their cosines are those of the vectors that were packed."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.stores.reading.stored import make_vectors, read_all

from theodolite.errors import InputError
from theodolite.stores.reading import open_store


def mean_cosine(vectors: NDArray[np.floating]) -> float:
    units = vectors.astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines = units @ units.T
    return float(cosines[~np.eye(len(cosines), dtype=bool)].mean())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_bytes_without_a_meaning_are_asked_about(dtype: type, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, 96), dtype))
    with pytest.raises(InputError) as caught:
        open_store(tmp_path / "a.npy")
    message = caught.value.message
    assert f"{np.dtype(dtype)} with 96 bytes each: 96 numbers, or 768 signs" in message
    assert all(f"--packed {name}" in message for name in ("binary", "int8", "uint8"))


def test_packed_signs_are_unpacked_as_they_were_packed() -> None:
    signs = make_vectors(40, 64) > 0
    expected = np.where(signs, 1, -1)
    packed = np.packbits(signs, axis=1)
    signed = (packed.astype(np.int16) - 128).astype(np.int8)  # what sentence-transformers calls "binary"
    for stored in (packed, signed):
        reader = open_store(stored, packed="binary")
        assert (reader.dim, reader.dtype) == (64, stored.dtype.name)
        vectors, _ = read_all(reader, rows=7)
        np.testing.assert_array_equal(vectors, expected)
    # The tempting reading: random signs have a mean cosine near 0, their bytes as numbers do not.
    assert abs(mean_cosine(expected)) < 0.01
    assert mean_cosine(packed) > 0.7


def test_numbers_without_a_sign_are_shifted_back() -> None:
    numbers = np.clip(np.round(40 * make_vectors(40, 64)), -128, 127).astype(np.int8)
    shifted = (numbers.astype(np.int16) + 128).astype(np.uint8)
    for stored in (numbers, shifted):
        np.testing.assert_array_equal(read_all(open_store(stored, packed="int8"))[0], numbers)
    assert abs(mean_cosine(numbers)) < 0.01
    assert mean_cosine(shifted) > 0.8
    np.testing.assert_array_equal(read_all(open_store(shifted, packed="uint8"))[0], shifted)


def test_long_vectors_of_int8_are_numbers() -> None:
    assert open_store(np.ones((3, 1024), np.int8)).dim == 1024
    with pytest.raises(InputError, match="1,024 bytes"):
        open_store(np.ones((3, 1024), np.uint8))


def test_booleans_are_signs() -> None:
    np.testing.assert_array_equal(read_all(open_store(np.array([[True, False]])))[0], [[1, -1]])


def test_wrong_packings_are_rejected() -> None:
    with pytest.raises(
        InputError, match=r"--packed binary: expected vectors in int8 or uint8, got float32 .* omit --packed"
    ):
        open_store(make_vectors(), packed="binary")
    with pytest.raises(InputError, match=r"--packed must be one of binary, int8, uint8 \(got 'bits'\)"):
        open_store(np.zeros((2, 8), np.uint8), packed="bits")
    with pytest.raises(InputError, match=r"--packed uint8: expected vectors in uint8, got int8"):
        open_store(np.zeros((2, 8), np.int8), packed="uint8")


def test_benchmark_files_of_bytes_are_asked_about(tmp_path: Path) -> None:
    row = np.int32(4).tobytes() + bytes([0, 255, 3, 4])
    (tmp_path / "a.bvecs").write_bytes(row * 3)
    with pytest.raises(InputError, match="4 numbers, or 32 signs"):
        open_store(tmp_path / "a.bvecs")
    np.testing.assert_array_equal(
        read_all(open_store(tmp_path / "a.bvecs", packed="uint8"))[0], [[0, 255, 3, 4]] * 3
    )
