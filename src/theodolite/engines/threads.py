"""Threads: how many each library may use, and calls that run in parallel."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

import torch

SWITCH_SECONDS = 2e-4
"""Seconds after which a thread must give up the interpreter to another; Python's default is 5e-3."""


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Switch between threads more often.

    Every call of the GPU library releases the interpreter, and waits for it while another thread prepares text. A
    forward pass is about a thousand such calls.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(SWITCH_SECONDS, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


FROZEN_BY_PYTHON = 5000
"""More objects than Python itself freezes when it starts: a few hundred in version 3.12."""


@contextmanager
def freeze_objects() -> Iterator[None]:
    """Leave the objects that exist now out of garbage collections.

    A collection with the 128,000 units of a vocabulary takes 0.2 s, in which no thread can use the GPU.
    """
    if gc.get_freeze_count() > FROZEN_BY_PYTHON:  # the program froze its own, which unfreezing would release
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let PyTorch use one thread: while text is prepared on all cores, more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Input = TypeVar("Input")
Output = TypeVar("Output")


@contextmanager
def run_in_threads(
    call: Callable[[Input], Output], inputs: Sequence[Input], workers: int
) -> Iterator[Iterator[Callable[[], Output]]]:
    """Call a function with each input on several threads; yield, in order, functions that wait for the results.

    With one worker each call is made when its result is asked for. The calls spend their time outside Python, in
    linear algebra, so that threads do not block each other; each library then uses one thread per call.
    """
    if workers < 2:
        yield (partial(call, each) for each in inputs)
        return
    with _one_thread_each(), ThreadPoolExecutor(workers, "theodolite") as pool:
        futures = [pool.submit(call, each) for each in inputs]
        try:
            yield (future.result for future in futures)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit torch and the linear algebra of numpy to one thread per calling thread.

    Do not call scipy's in such threads: it does not release the interpreter.
    """
    with (
        one_torch_thread(),
        thread_controller().limit(limits=1, user_api="blas"),
    ):  # applies to threads started from now on
        yield


def load_solvers(device: str) -> None:
    """Load the solvers of a device and find the thread pools, which the tables would otherwise wait for."""
    thread_controller()
    matrix = torch.eye(64, dtype=torch.float64, device=device)
    torch.linalg.eigvalsh(matrix), torch.linalg.eigh(matrix)


@cache
def thread_controller() -> Any:
    """Return the controller of the thread pools of loaded libraries; finding them takes a while."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
