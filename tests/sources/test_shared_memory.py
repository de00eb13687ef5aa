"""Data sent between processes arrives unchanged, in the receiver's own memory."""

from __future__ import annotations

import multiprocessing
import warnings
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from theodolite.sources.worker_processes import ALIGNED, can_share_memory, pack, receive, send

pytestmark = pytest.mark.skipif(not can_share_memory(), reason="this system has no memory that goes by a handle")


def there_and_back(thing: Any) -> Any:
    receiver, sending_end = multiprocessing.Pipe()
    sender = Thread(target=lambda: send(sending_end, *pack(thing)))
    sender.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of arrays that may not be written to
        found = receive(receiver)
    sender.join()
    receiver.close()
    sending_end.close()
    return found


@pytest.mark.parametrize("rows", [0, 1, 7, 300_000])  # 300,000 fill no pipe: nobody waits for a reader of it
def test_arrays_of_any_size_arrive_and_may_be_written_to(rows: int) -> None:
    numbers = torch.arange(rows, dtype=torch.int64)
    thing = {"n": numbers, "b": numbers % 2 == 0, "a": np.arange(rows, dtype=np.int32), "none": None, "s": "é"}
    found = there_and_back(thing)
    assert torch.equal(found["n"], numbers)
    assert torch.equal(found["b"], numbers % 2 == 0)
    assert found["b"].dtype == torch.bool
    assert found["a"].dtype == np.int32
    assert found["a"].tolist() == list(range(rows))
    assert (found["none"], found["s"]) == (None, "é")
    found["n"] += 1
    assert numbers.sum() == sum(range(rows)), "the sender's own is not written to"


def test_empty_arrays_and_non_contiguous_views() -> None:
    square = torch.arange(12).view(3, 4)
    found = there_and_back([torch.zeros(0), square.T, square[:, 1], torch.zeros(0, 5), square])
    assert [tuple(one.shape) for one in found] == [(0,), (4, 3), (3,), (0, 5), (3, 4)]
    assert torch.equal(found[1], square.T)
    assert torch.equal(found[2], square[:, 1])
    assert torch.equal(found[4], square)


def test_arrays_are_aligned_for_fast_loads() -> None:
    found = there_and_back([torch.ones(3, dtype=torch.bool), torch.arange(5), torch.arange(2)])
    assert {one.data_ptr() % ALIGNED for one in found} == {0}


def test_no_handle_stays_open() -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    there_and_back(torch.arange(1000))
    before = handles()
    for _ in range(20):
        there_and_back(torch.arange(1000))
    assert handles() <= before + 2
