"""Half precision is chosen exactly if it loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.devices import DEVICES

from theodolite import half_precision
from theodolite.half_precision import exact_dtype, widen

BITS = torch.arange(2**16, dtype=torch.int32).to(torch.int16)


def finite(half: torch.dtype) -> torch.Tensor:
    """Return every finite number of the type, -0 and denormal ones too, as float32."""
    values = BITS.view(half).float()
    return values[values.isfinite()]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_every_number_of_half_precision_is_exact(half: torch.dtype, device: str) -> None:
    values = finite(half).to(device)
    assert exact_dtype(values) == half
    assert same_bits(widen(values.to(half)), values)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=3))
def test_the_choice_is_the_first_type_that_has_all_values(given: list[float]) -> None:
    values = torch.tensor(given)
    lossless = [
        half
        for half, fits in (
            (torch.bfloat16, values.view(torch.int32).bitwise_and(0xFFFF).eq(0).all()),
            (torch.float16, all(abs(x) <= 65504 and x == float(np.float64(x).astype(np.float16)) for x in given)),
        )
        if fits
    ]
    assert exact_dtype(values) == (lossless[0] if lossless else torch.float32)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-0.0, torch.bfloat16),
        (2.0**-149, torch.float32),  # the smallest of float32: as a number of 16 bits it would be 0
        (2.0**-133, torch.bfloat16),  # the smallest of bfloat16
        (2.0**-24 + 2.0**-14, torch.float16),
        (65520.0, torch.float32),  # it would be infinite as float16
        (65472.0, torch.float16),
        (2.0**127, torch.bfloat16),
        (torch.finfo(torch.float32).max, torch.float32),
    ],
)
def test_extreme_numbers(value: float, expected: torch.dtype) -> None:
    assert exact_dtype(torch.tensor([value])) == expected


@pytest.mark.parametrize("place", [0, 7, 8, 63])
def test_one_value_in_any_block_decides(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(half_precision, "FIRST", 3)
    monkeypatch.setattr(half_precision, "BLOCK", 8)
    values = torch.arange(64.0).reshape(16, 4)
    assert exact_dtype(values) == torch.bfloat16
    assert exact_dtype(values.T) == torch.bfloat16
    values.view(-1)[place] = 0.1
    assert exact_dtype(values) == torch.float32


def test_a_tensor_in_single_precision_is_known_after_its_first_values(monkeypatch: pytest.MonkeyPatch) -> None:
    values, checked = torch.randn(50, 1000), list[int]()
    is_exact = half_precision._is_exact
    monkeypatch.setattr(half_precision, "_is_exact", lambda x, half: checked.append(len(x)) or is_exact(x, half))
    assert exact_dtype(values) == torch.float32
    assert checked == [half_precision.FIRST] * 2


def test_other_tensors_keep_their_type() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        assert exact_dtype(torch.ones(3, dtype=dtype)) == dtype
    assert exact_dtype(torch.ones(0, 4)) == torch.float32
    assert widen(torch.ones(3, dtype=torch.float64)).dtype == torch.float64
