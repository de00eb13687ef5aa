"""Sums on a device behave as sums on the CPU."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.devices import DEVICES
from tests.hard_cases import hard

from theodolite import devices, half_precision
from theodolite.devices import DeviceTensor, copy_to_cpu
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.unit_table import UnitTable

CODES, N = torch.tensor([5, 0, 3]), torch.tensor([2, 1, 4])
SUMS, SQUARES = torch.arange(6, dtype=torch.float64).reshape(3, 2) / 7, torch.tensor([3.0, 1.0, 9.0]).double()


def table(held: DeviceTensor | None = None) -> UnitTable:
    made = UnitTable(2)
    made.load(CODES.clone(), N.clone(), SUMS.clone() if held is None else held, SQUARES.clone())
    return made


def parts(of: UnitTable) -> list[list[object]]:
    return [part.tolist() for part in (of.codes, of.n, of.sum, of.squares)]


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_is_copied_once_and_released(device: str) -> None:
    on_device = SUMS.clone().to(device)
    gone, held = weakref.ref(on_device), DeviceTensor(on_device)
    assert held.on_device is on_device
    assert (held.shape, held.dtype, held.nbytes) == (SUMS.shape, SUMS.dtype, SUMS.nbytes)
    del on_device
    with ThreadPoolExecutor(4) as pool:
        start = threading.Barrier(4)
        found = list(pool.map(lambda _: (start.wait(10), held.cpu())[1], range(4)))
    assert all(one is found[0] for one in found)
    assert torch.equal(found[0], SUMS)
    assert held.on_device is None
    assert gone() is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_large_tensors_are_copied_in_blocks(
    monkeypatch: pytest.MonkeyPatch, device: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr("theodolite.devices.BLOCK", 48)
    expected = torch.randn(37, 5).to(dtype)
    assert torch.equal(copy_to_cpu(expected.to(device)), expected)
    assert copy_to_cpu(expected[:0].to(device)).shape == (0, 5)
    assert torch.equal(copy_to_cpu(expected.to(device)[:, 2]), expected[:, 2])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("ask", [True, False])
def test_a_narrow_copy_is_in_half_precision_if_that_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, device: str, dtype: torch.dtype, ask: bool
) -> None:
    monkeypatch.setattr("theodolite.devices.BLOCK", 48)
    expected = torch.randn(37, 5).to(dtype)
    on_device = (expected if dtype == torch.float64 else expected.float()).to(device)
    held = DeviceTensor(on_device, narrow=True)
    if ask:  # before it is copied, as for the header of a file
        assert (held.dtype, held.nbytes) == (dtype, expected.nbytes)
    assert held.on_device is on_device
    assert held.cpu().dtype == held.dtype == dtype
    assert torch.equal(held.cpu(), expected)
    assert DeviceTensor(on_device[:0], narrow=True).cpu().shape == (0, 5)


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_full_device_converts_nothing(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    def fail(*given: object) -> None:
        raise torch.OutOfMemoryError

    values = torch.randn(37, 5).bfloat16()
    on_device = values.float().to(device)
    held = DeviceTensor(on_device, narrow=True)
    monkeypatch.setattr(
        "theodolite.devices.exact_dtype", lambda x: fail() if x.is_cuda else half_precision.exact_dtype(x)
    )
    assert held.dtype == torch.bfloat16
    iterate = devices._iterate_bytes
    monkeypatch.setattr(
        devices, "_iterate_bytes", lambda x, dtype: fail() if dtype != x.dtype else iterate(x, dtype)
    )
    assert torch.equal(held.cpu(), values)


def test_the_tensor_on_the_device_is_not_changed_through_the_copy() -> None:
    on_device = SUMS.clone()
    held = DeviceTensor(on_device)
    copy = held.cpu()
    copy += 1  # merging into the copy must not change the tensor that is measured
    assert torch.equal(on_device, SUMS)


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.add_sums(torch.tensor([3, 9]), torch.tensor([1, 1]), SUMS[:2], SQUARES[:2]),
        lambda one: one.add_rows(torch.tensor([0, 9]), torch.ones(2, 2), torch.zeros(2)),
        lambda one: one.recode(torch.arange(6).flip(0)),
        lambda one: one.recentre(torch.tensor([0.5, -1.0]).double()),
        lambda one: one.sum,
    ],
    ids=["add_sums", "add_rows", "recode", "recentre", "sum"],
)
def test_a_table_changes_as_with_sums_on_the_cpu(change: Callable[[UnitTable], object]) -> None:
    held = DeviceTensor(SUMS.clone())
    found, expected = table(held), table()
    assert found.stored_sum is held
    change(found)
    change(expected)
    assert parts(found) == parts(expected)
    assert isinstance(found.stored_sum, torch.Tensor)


def test_a_fold_returns_its_state_in_place_or_copied() -> None:
    expected = hard(rows=400).fold()
    found = LayerFold(expected.frame)
    found.load(expected.state())
    for one in found.moments.tables:
        if one.size:
            one.load(one.codes, one.n, DeviceTensor(one.sum.clone()), one.squares)
    left = {name for name, part in found.state_in_place().items() if isinstance(part, DeviceTensor)}
    assert left == {name for name in expected.state() if name.startswith("moments.") and name.endswith(".sum")}
    assert found.holds(0) == expected.holds(0)
    state = found.state()
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.state().items())
    assert not any(isinstance(part, DeviceTensor) for part in found.state_in_place().values())
