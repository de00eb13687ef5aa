"""Work done by copies of this process: the thread that keeps a GPU busy need not share the interpreter with it.

Copies are made by fork: they have the model's tokenizer and all else at once, and never touch the GPU. What they
return comes through a pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from multiprocessing.connection import Connection
from threading import Lock, Semaphore
from typing import Any, TypeVar

import torch
from torch import Tensor

from theodolite.errors import TheodoliteError

MOST = 8
Given = TypeVar("Given")
Made = TypeVar("Made")


def room_for() -> int:
    """Say how many copies there may be: half as many as cores; none where those are few, or nothing can fork."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    can = "fork" in multiprocessing.get_all_start_methods()
    return min(MOST, cores // 2) if can and cores >= 4 else 0


@contextmanager
def forked(work: Callable[[Given], Made], copies: int) -> Iterator[Callable[[Given], Made]]:
    """Give a function that does `work` in one of at most so many copies; as many threads may call it at a time.

    A copy is made when there is work and none is free. Each does one piece after the other, in one thread.
    """
    context = multiprocessing.get_context("fork")
    free: deque[Connection[Any, Any]] = deque()
    running: list[tuple[Any, Connection[Any, Any]]] = []
    making, spare = Lock(), Semaphore(copies)

    def copy() -> Connection[Any, Any]:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # said, it warns of no fork; see `_serve`
        with making, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the copy uses none of them
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(work, there, here), daemon=True)
            process.start()
            there.close()
            running.append((process, here))
        return here

    def do(given: Given) -> Made:
        with spare:
            try:
                pipe = free.pop()
            except IndexError:
                pipe = copy()
            try:
                pipe.send_bytes(_packed(given))
                done, made = pickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                raise TheodoliteError(
                    "A process that prepares text died; was there too little memory? The same command with "
                    "--resume goes on from the last checkpoint."
                ) from None
            free.append(pipe)
        if not done:
            raise made
        return made  # type: ignore[no-any-return]

    try:
        yield do
    finally:
        for process, pipe in running:
            pipe.close()
            process.terminate()
            process.join()


def _serve(work: Callable[[Any], Any], pipe: Connection[Any, Any], others: Connection[Any, Any]) -> None:
    """Do what comes through the pipe until nothing does."""
    others.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the threads of tokenizers and of PyTorch stayed behind
    torch.set_num_threads(1)
    while True:
        try:
            given = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            told = _packed((True, work(given)))
        except Exception as error:
            told = _packed_error(error)
        pipe.send_bytes(told)


def _packed_error(error: Exception) -> bytes:
    """Return the error, or one that says the same, if it can be read again."""
    try:
        pickle.loads(packed := _packed((False, error)))
    except Exception:
        return _packed((False, TheodoliteError(f"{type(error).__name__}: {error}")))
    return packed


class _Pickler(pickle.Pickler):
    """Writes tensors as arrays: PyTorch's own way, shared memory, fails where a container has little of it."""

    def reducer_override(self, obj: Any) -> Any:
        return (torch.from_numpy, (obj.numpy(),)) if isinstance(obj, Tensor) else NotImplemented


def _packed(thing: Any) -> bytes:
    file = BytesIO()
    _Pickler(file, protocol=5).dump(thing)
    return file.getvalue()
