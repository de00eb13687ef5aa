"""Worker processes: forked copies of this process that prepare batches while one thread feeds the GPU.

Workers are forked, so that they have the tokenizer and everything else at once; they never use the GPU. Arrays are
sent through shared memory, and the pipe carries only a handle: what a pipe carries is copied twice by each side, a
fraction of a megabyte at a time, while the interpreter waits.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import accumulate, pairwise
from mmap import mmap
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pickle import PickleBuffer, loads
from threading import Lock, Semaphore
from typing import Any, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import torch
from torch import Tensor

from theodolite.environment import STOP_SIGNALS
from theodolite.errors import TheodoliteError

Pipe: TypeAlias = "Connection[Any, Any]"
ALIGNED = 64  # bytes; arrays in shared memory start at multiples of this


def can_share_memory() -> bool:
    """Return whether this system has shared memory with a handle."""
    return hasattr(os, "memfd_create")


def pack(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Return the arguments of `send`: the pickled value without its arrays, and the arrays."""
    file, arrays = BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(file, protocol=5, buffer_callback=arrays.append).dump(value)
    return file.getvalue(), arrays


def send(pipe: Pipe, pickled: bytes, arrays: Sequence[pickle.PickleBuffer]) -> None:
    """Send a packed value to the process at the other end of a two-way pipe."""
    views = [array.raw() for array in arrays]
    sizes = [view.nbytes for view in views]
    pipe.send_bytes(pickle.dumps((pickled, sizes)))
    if not any(sizes):
        return
    handle = os.memfd_create("theodolite")
    try:
        for view, (start, _) in zip(views, _bounds(sizes), strict=True):
            while view.nbytes:
                written = os.pwrite(handle, view, start)
                view, start = view[written:], start + written
        send_handle(pipe, handle, None)  # the receiver matters only on Windows
    finally:
        os.close(handle)


def receive(pipe: Pipe) -> Any:
    """Return the value that the process at the other end sends. Its arrays are writable and not shared further."""
    pickled, sizes = pickle.loads(pipe.recv_bytes())
    if not any(sizes):
        return pickle.loads(pickled, buffers=[bytearray() for _ in sizes])
    handle = recv_handle(pipe)
    try:
        memory = memoryview(mmap(handle, 0))
    finally:
        os.close(handle)
    return pickle.loads(pickled, buffers=[memory[start:stop] for start, stop in _bounds(sizes)])


def _bounds(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of arrays of these sizes in bytes."""
    starts = accumulate((-(-size // ALIGNED) * ALIGNED for size in sizes), initial=0)
    for size, (start, _) in zip(sizes, pairwise(starts), strict=True):
        yield start, start + size


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays: PyTorch would use /dev/shm, which is small in many containers."""

    def reducer_override(self, obj: Any) -> Any:
        return (torch.from_numpy, (obj.numpy(),)) if isinstance(obj, Tensor) else NotImplemented


MOST_WORKERS = 8
CORES_PER_WORKER = 3
"""Cores that one worker keeps busy: its threads encode, and one of them also packs."""
PR_SET_PDEATHSIG = 1  # of Linux's prctl
NICE = 5
"""The niceness of workers: where cores are few, the thread that feeds the GPU goes first."""
Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerCount(NamedTuple):
    """The number of worker processes, and of threads in each."""

    processes: int
    threads: int


def count_workers(tasks: int | None = None) -> WorkerCount | None:
    """Return the number of workers for this many tasks; None if there are too few cores or fork is not available.

    At least two workers, so that one continues while the result of the other is packed.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores < 4 or not can_share_memory() or "fork" not in multiprocessing.get_all_start_methods():
        return None
    most = MOST_WORKERS if tasks is None else min(max(tasks, 1), MOST_WORKERS)
    processes = min(max(cores // CORES_PER_WORKER, 2), most)
    return WorkerCount(processes, max((cores - 1) // processes, 1))


class WorkerProcesses(Generic[Task, Result]):
    """Forked copies of this process that run `work`, each one task at a time.

    They are forked at once. No other thread may then hold a lock that a worker needs: it would stay locked in the
    worker for ever. `begin` is called first in each.
    """

    def __init__(
        self, work: Callable[[Task], Result], count: int, begin: Callable[[], None] = lambda: None
    ) -> None:
        self._free: deque[Pipe] = deque()
        self._idle = Semaphore(count)
        self._closing = Lock()
        self.count = count
        self._running: list[multiprocessing.process.BaseProcess] = []
        os.environ.setdefault(
            "TOKENIZERS_PARALLELISM", "true"
        )  # if set, tokenizers does not warn of forks; see `_serve`
        context = multiprocessing.get_context("fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: the worker uses none of them
            try:
                for _ in range(count):
                    self._fork(context, work, begin)
            except OSError:
                self.close()
                raise

    def _fork(self, context: Any, work: Callable[[Task], Result], begin: Callable[[], None]) -> None:
        ours, theirs = context.Pipe()
        to_close = (*self._free, ours)
        process = context.Process(target=_serve, args=(work, begin, theirs, to_close), daemon=True)
        process.start()
        theirs.close()
        self._free.append(ours)
        self._running.append(process)

    def __call__(self, task: Task) -> Result:
        """Return the result of a worker, or raise its error. As many threads as workers may wait."""
        with self._idle:
            try:
                pipe = self._free.popleft()
                send(pipe, *pack(task))
                done, result = receive(pipe)
            except (IndexError, EOFError, OSError):  # a worker that died is not among the free ones
                raise TheodoliteError(
                    "A worker process that prepares text died, possibly for lack of memory. The same command with "
                    "--resume continues from the last checkpoint."
                ) from None
            self._free.append(pipe)
        if not done:
            raise result
        return result  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Let all workers exit by themselves, without waiting: there are no more tasks."""
        while self._free:
            self._free.popleft().close()

    def kill(self) -> None:
        """Kill all workers without waiting; the system takes a while to free their memory. Close them later."""
        for process in self._running:
            process.kill()

    def close(self) -> None:
        """Kill all workers, even during a task; threads that wait for a result get an error."""
        with self._closing:  # of two threads that join a process, one returns before it is gone
            self.kill()
            for process in self._running:
                process.join()
            self._free.clear()


def start_workers(
    work: Callable[[Task], Result], tasks: int | None = None, begin: Callable[[int], None] = lambda threads: None
) -> WorkerProcesses[Task, Result] | None:
    """Start workers for this many tasks; None if there are too few cores or the system allows no processes.

    `begin` is called first in each, with the number of its threads.
    """
    workers = count_workers(tasks)
    if workers is None:
        return None
    try:
        return WorkerProcesses(work, workers.processes, partial(begin, workers.threads))
    except OSError:  # no memory can be reserved, or no more processes are allowed
        return None


def _serve(
    work: Callable[[Any], Any], begin: Callable[[], None], pipe: Pipe, to_close: tuple[Pipe, ...]
) -> NoReturn:
    """Run the tasks that come through the pipe until it is closed: the program has ended or was killed."""
    for other in to_close:
        other.close()
    _exit_with_parent()
    for number in STOP_SIGNALS:  # sent to all processes of a group: the program saves and stops its workers
        signal.signal(number, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a fork has no threads of tokenizers and PyTorch
    torch.set_num_threads(1)
    os.nice(NICE)
    gc.freeze()  # collecting older objects would copy their memory pages
    begin()
    try:
        while True:
            send(pipe, *_run_and_pack(work, receive(pipe)))
    except (EOFError, OSError):
        os._exit(0)  # exit handlers belong to the main process


def _exit_with_parent() -> None:
    """Let the system kill this process with its parent, even during a task. Linux only.

    A fork keeps the GPU memory of the program allocated. A thread that watches the parent would be simpler, but a
    fork must not start threads: other threads of the parent may have been loading libraries.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _run_and_pack(work: Callable[[Any], Any], task: Any) -> tuple[bytes, list[PickleBuffer]]:
    """Return the packed result of the work, or its error, or a picklable error with the same message."""
    try:
        return pack((True, work(task)))
    except Exception as error:
        try:
            pickled, arrays = pack((False, error))
            loads(pickled, buffers=arrays)
        except Exception:
            return pack((False, TheodoliteError(f"{type(error).__name__}: {error}")))
        return pickled, arrays
