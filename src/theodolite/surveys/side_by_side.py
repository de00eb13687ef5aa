"""Side by side: one call for each of several things, on as many threads as there are cores to use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

import torch

from theodolite.engines.turns import one_thread

Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def side_by_side(
    call: Callable[[Given], Made], given: Sequence[Given], workers: int
) -> Iterator[Iterator[Callable[[], Made]]]:
    """Give, in order, what waits for the outcome of each. With one worker the call is made when it is waited for.

    The calls leave Python for products, eigenvalues and passes over large arrays, so that threads do not stand in
    each other's way. Of the libraries below none may then take all cores for itself: each keeps to one thread.
    """
    if workers < 2:
        yield (partial(call, one) for one in given)
        return
    with _one_thread_each(), ThreadPoolExecutor(workers, "theodolite") as pool:
        begun = [pool.submit(call, one) for one in given]
        try:
            yield (one.result for one in begun)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let torch and the linear algebra of numpy use one thread in every thread that calls them.

    Scipy's holds on to the interpreter, and has no place in such calls.
    """
    with one_thread(), linear_algebra().limit(limits=1, user_api="blas"):  # threads begun from here on take it up
        yield


def made_ready(device: str) -> None:
    """Load what tables made with a device would else wait for: its solver, and the libraries to be told."""
    linear_algebra()
    some = torch.eye(64, dtype=torch.float64, device=device)
    torch.linalg.eigvalsh(some), torch.linalg.eigh(some)


@cache
def linear_algebra() -> Any:
    """Return what tells the libraries that are loaded how many threads to use: finding them takes a while."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
