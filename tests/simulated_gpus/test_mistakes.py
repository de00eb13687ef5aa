"""What simulated GPUs find: the mistakes that a real one may or may not show."""

from __future__ import annotations

import gc

import pytest
import torch
from tests.simulated_gpus.machine import MACHINE

from theodolite.devices import DeviceTensor, copy_to_cpu, read_on
from theodolite.statistics.cuda.context import SideStream
from theodolite.statistics.cuda.transfer import fetch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not MACHINE.installed, reason="requires simulated GPUs: make test-simulated"),
]


def take_mistakes() -> list[str]:
    """Return the mistakes so far, for which the test is not to fail."""
    gc.collect()
    mistakes, MACHINE.mistakes = MACHINE.mistakes, []
    return mistakes


def make_ones(device: str = "cuda") -> torch.Tensor:
    """Make ones for which the CPU has not waited."""
    return torch.zeros(8, device=device) + 1


def test_numbers_are_those_of_the_cpu() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal((x.to("cuda") @ x.to("cuda").T).cpu(), x @ x.T)
    assert str(x.to("cuda:1").sum(dim=0).device) == "cuda:1"
    assert float(x.to("cuda").sum()) == 15


def test_tensors_of_two_devices() -> None:
    with pytest.raises(RuntimeError, match="expected all tensors on one GPU, but found"):
        make_ones("cuda:0") + make_ones("cuda:1")
    with pytest.raises(RuntimeError, match="expected all tensors on one GPU, but found"):
        make_ones() + torch.ones(8)


def test_a_stream_that_does_not_wait() -> None:
    ones, side = make_ones(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        twice = ones * 2
    assert "aten::mul on stream" in take_mistakes()[0]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        twice += ones
    assert not take_mistakes()
    twice += 1  # on the default stream, which does not wait for the side stream
    assert "aten::add_ on stream 0 does not wait for aten::add_" in take_mistakes()[0]
    torch.cuda.synchronize()


def test_memory_that_is_free_while_another_stream_reads_it() -> None:
    ones, side = make_ones(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        twice = ones * 2
    del ones
    assert "may still use memory that is free again for stream 0" in take_mistakes()[0]
    torch.cuda.synchronize()
    assert bool((twice == 2).all())


def test_a_side_stream_keeps_its_inputs() -> None:
    for given in (True, False):
        ones, side = make_ones(), SideStream(torch.device("cuda:0"))
        with side.run([ones] if given else []):
            twice = ones * 2
        del ones
        assert bool(take_mistakes()) is not given
        side.join()
        assert float(twice.sum()) == 16


def test_a_tensor_that_another_thread_copies_and_frees() -> None:
    for lent in (True, False):
        held = DeviceTensor(make_ones())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            found = read_on(held, torch.device("cuda")) if lent else held.on_device
            assert found is not None
            twice = found * 2
            del found
        assert torch.equal(held.cpu(), torch.ones(8))
        assert bool(take_mistakes()) is not lent
        torch.cuda.synchronize()
        assert float(twice.sum()) == 16


def test_a_copy_for_which_the_cpu_has_not_waited() -> None:
    ones = make_ones()
    assert not torch.equal(ones.to("cpu", non_blocking=True), torch.ones(8))
    wait = fetch(ones)
    assert wait().tolist() == [1.0] * 8
    assert torch.equal(copy_to_cpu(ones), torch.ones(8))


def test_a_full_gpu() -> None:
    MACHINE.full_at = {MACHINE.allocations + 1}
    with pytest.raises(torch.OutOfMemoryError):
        make_ones()
    assert float(make_ones().sum()) == 8


def test_an_operation_for_which_the_cpu_waits() -> None:
    ones = make_ones()
    torch.cuda.set_sync_debug_mode("error")
    try:
        ones += 1
        with pytest.raises(RuntimeError, match="synchronizing"):
            ones.sum().item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
