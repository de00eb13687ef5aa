"""Work done by copies of this process: the thread that keeps a GPU busy need not share the interpreter with it.

Copies are made by fork: they have the model's tokenizer and all else at once, and never touch the GPU.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pickle import PickleBuffer, loads
from threading import Semaphore
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import torch

from theodolite.engines.ahead import beside
from theodolite.engines.sending import Pipe, can_send, packed, received, send
from theodolite.errors import TheodoliteError

MOST = 8
BUSY = 3
"""Cores that a copy keeps busy: what its threads encode it packs by itself."""
NICE = 5
"""How far copies stand back where cores are few: the thread that keeps the GPU busy goes first."""
Given = TypeVar("Given")
Made = TypeVar("Made")


class Room(NamedTuple):
    """How many copies there may be, and how many threads in each."""

    copies: int
    threads: int


def room_for(pieces: int | None = None) -> Room | None:
    """Say what room there is for so many pieces of work; None where cores are few, or nothing can fork.

    Two copies at the least, so that one goes on while the other's work is packed.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores < 4 or not can_send() or "fork" not in multiprocessing.get_all_start_methods():
        return None
    most = MOST if pieces is None else min(max(pieces, 1), MOST)
    copies = min(max(cores // BUSY, 2), most)
    return Room(copies, max((cores - 1) // copies, 1))


class Copies(Generic[Given, Made]):
    """So many copies of this process that do `work`, each one piece after the other.

    They are made at once. What a copy needs must then be at rest: a lock that another thread holds at that moment
    stays locked in the copy for ever. `begin` is called first in each.
    """

    def __init__(
        self, work: Callable[[Given], Made], copies: int, begin: Callable[[], None] = lambda: None
    ) -> None:
        self._free: deque[Pipe] = deque()
        self._spare = Semaphore(copies)
        self.count = copies
        self._running: list[multiprocessing.process.BaseProcess] = []
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # said, it warns of no fork; see `_serve`
        context = multiprocessing.get_context("fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the copy uses none of them
            try:
                for _ in range(copies):
                    self._make(context, work, begin)
            except OSError:
                self.close()
                raise

    def _make(self, context: Any, work: Callable[[Given], Made], begin: Callable[[], None]) -> None:
        here, there = context.Pipe()
        ours = (*self._free, here)
        process = context.Process(target=_serve, args=(work, begin, there, ours), daemon=True)
        process.start()
        there.close()
        self._free.append(here)
        self._running.append(process)

    def __call__(self, given: Given) -> Made:
        """Return what a copy makes of it, or raise what it raised. As many threads as copies may wait."""
        with self._spare:
            try:
                pipe = self._free.popleft()
                send(pipe, *packed(given))
                done, made = received(pipe)
            except (IndexError, EOFError, OSError):  # one that died is not among the free ones
                raise TheodoliteError(
                    "A process that prepares text died; was there too little memory? The same command with "
                    "--resume goes on from the last checkpoint."
                ) from None
            self._free.append(pipe)
        if not done:
            raise made
        return made  # type: ignore[no-any-return]

    def dismiss(self) -> None:
        """Let all copies end by themselves: they have nothing more to do, and nobody waits for their end."""
        while self._free:
            self._free.popleft().close()

    def close(self) -> None:
        """End all copies, in the middle of their work if need be; threads that wait for it are told."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.join()
        self._free.clear()


def forked(
    work: Callable[[Given], Made], pieces: int | None = None, begin: Callable[[int], None] = lambda threads: None
) -> Copies[Given, Made] | None:
    """Return copies that do so many pieces of work; None where there is no room, or the system lets none be made.

    `begin` is called first in each, with the number of its threads.
    """
    room = room_for(pieces)
    if room is None:
        return None
    try:
        return Copies(work, room.copies, partial(begin, room.threads))
    except OSError:  # no memory is promised to them, or no more processes are allowed
        return None


def apart(work: Callable[[], Made]) -> Callable[[], Made]:
    """Do what `beside` does in a copy of this process, where there can be one: the interpreter stays free.

    >>> found = apart(lambda: 6 * 7)
    >>> found()
    42
    """
    copies: Copies[None, Made] | None = forked(lambda nothing: work(), 1)
    if copies is None:
        return beside(work)

    def waited() -> Made:
        with closing(copies):
            return copies(None)

    return beside(waited)


def _serve(work: Callable[[Any], Any], begin: Callable[[], None], pipe: Pipe, ours: tuple[Pipe, ...]) -> NoReturn:
    """Do what comes through the pipe until nothing does: the program has ended, or was killed."""
    for other in ours:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the threads of tokenizers and of PyTorch stayed behind
    torch.set_num_threads(1)
    os.nice(NICE)
    gc.freeze()  # what is older than the copy is not looked through again and again, which would copy it
    begin()
    try:
        while True:
            send(pipe, *_told(work, received(pipe)))
    except (EOFError, OSError):
        os._exit(0)  # nothing that the program wants done at its end is the copy's to do


def _told(work: Callable[[Any], Any], given: Any) -> tuple[bytes, list[PickleBuffer]]:
    """Return what came of the work: what it made, or its error, or one that can be sent and says the same."""
    try:
        return packed((True, work(given)))
    except Exception as error:
        try:
            form, arrays = packed((False, error))
            loads(form, buffers=arrays)
        except Exception:
            return packed((False, TheodoliteError(f"{type(error).__name__}: {error}")))
        return form, arrays
