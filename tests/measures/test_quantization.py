"""Quantized vectors: against a loop over coordinates, and what a mean and a scale change."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.measures.quantization import quantization_error, quantize

RANDOM = np.random.default_rng(0)
KEYS = RANDOM.standard_normal((200, 16)) * np.geomspace(0.1, 3, 16) + 5 * RANDOM.standard_normal(16)


def round_naively(vector: np.ndarray, bits: int) -> np.ndarray:
    top = 2 ** (bits - 1) - 1
    step = max(abs(float(value)) for value in vector) / top
    return np.array([round(float(value) / step) * step for value in vector])


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_against_a_loop(bits: int) -> None:
    mean, scale = KEYS.mean(axis=0), KEYS.std(axis=0)
    for given, expected in (
        ({}, [round_naively(key, bits) for key in KEYS]),
        ({"mean": mean}, [round_naively(key - mean, bits) + mean for key in KEYS]),
        ({"mean": mean, "scale": scale}, [round_naively((k - mean) / scale, bits) * scale + mean for k in KEYS]),
    ):
        np.testing.assert_allclose(quantize(KEYS, bits, **given), expected, atol=1e-12)
        error = sum(np.sum((k - e) ** 2) for k, e in zip(KEYS, expected, strict=True)) / np.sum(KEYS**2)
        assert quantization_error(KEYS, bits, **given) == pytest.approx(error)


def test_keys_far_from_0_need_their_mean() -> None:
    plain, centred = quantization_error(KEYS), quantization_error(KEYS, mean=KEYS.mean(axis=0))
    assert centred < plain / 2


def test_zero_vectors() -> None:
    assert np.isnan(quantization_error(np.zeros((3, 4))))
    assert quantize(np.zeros((1, 4))).tolist() == [[0.0] * 4]
    constant = np.ones((2, 3))
    assert quantization_error(constant, mean=constant[0], scale=np.zeros(3)) == 0.0
