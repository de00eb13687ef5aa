"""Prefetching: prepare batches in threads or processes before the fold asks for them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import Queue
from threading import Event, Thread
from typing import Any, TypeVar

from theodolite.sources.source import Source, each_kind
from theodolite.sources.text.encoding import use_threads
from theodolite.sources.worker_processes import WorkerProcesses, start_workers

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_thread(work: Callable[[], Result]) -> Callable[[], Result]:
    """Start work in a thread, and return a function that waits for it and returns its result or raises its error.

    An interrupted program does not wait for the thread.

    >>> found = run_in_thread(lambda: 6 * 7)
    >>> found()
    42
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="theodolite-background", daemon=True).start()
    return future.result


def map_ahead(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield work(item) in order, with up to `workers` of them running at a time.

    >>> list(map_ahead(abs, [-2, 1, -3], workers=2))
    [2, 1, 3]
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="theodolite-prepare") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Prefetcher(Iterator[Item]):
    """Iterates over items in order; a thread that starts at once computes up to `depth` of them in advance."""

    def __init__(self, items: Iterable[Item], depth: int = 8) -> None:
        self._queue: Queue[tuple[Item | None, BaseException | None, bool]] = Queue(depth)
        self._stop = Event()
        self.waited = 0.0  # seconds that the consumer has waited for items
        self._thread = Thread(target=self._work, args=(items,), name="theodolite-prefetch", daemon=True)
        self._thread.start()

    def _work(self, items: Iterable[Item]) -> None:
        try:
            for item in items:
                if self._stop.is_set():
                    break
                self._queue.put((item, None, False))
        except BaseException as error:
            self._queue.put((None, error, True))
        else:
            if isinstance(items, Generator):  # an interrupted generator ends in the thread that ran it
                items.close()
            self._queue.put((None, None, True))

    def __next__(self) -> Item:
        began = time.monotonic()
        item, error, done = self._queue.get()
        self.waited += time.monotonic() - began
        if done:
            self._queue.put((None, error, True))  # for the next call
        if error is not None:
            raise error
        if done:
            raise StopIteration
        return item  # type: ignore[return-value]

    def close(self) -> None:
        """Stop, and wait until the thread has ended; there are no items from then on."""
        self._stop.set()
        while self._thread.is_alive():  # it may be waiting for a full queue
            self._drain()
            self._thread.join(timeout=0.05)
        self._drain()
        self._queue.put((None, None, True))

    def _drain(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()


def prefetch(items: Iterable[Item], depth: int = 8) -> Iterator[Item]:
    """Yield the items in order, with up to `depth` of them computed in advance; an error is raised in its place.

    Tokenizing releases the lock of the interpreter, so that the model need not wait for it.

    >>> list(prefetch(range(3)))
    [0, 1, 2]
    """
    with closing(Prefetcher(items, depth)) as prefetcher:
        yield from prefetcher


Documents = list[tuple[int, Any]]
PREPARING_THREADS = 2
"""Shards tokenized at a time if a GPU waits and no worker processes are available: while Rust encodes one, Python
packs the other."""


def gpu_waits(source: Source) -> bool:
    """Return whether a GPU would wait for text: it is then prepared far ahead and in several processes.

    Words get their codes in the order in which they occur, so that shards are prepared one after the other.
    """
    return bool(getattr(source, "resident", False)) and not any(each.units.open for each in each_kind(source))


class ShardPreparation:
    """Iterates over (index, batches) for (index, documents) pairs, in order.

    If a GPU would wait, preparation starts at once in worker processes, and one shard more than there are workers
    is ready or in preparation at a time; `most` is the number of shards, if known. Otherwise each shard is
    prepared on request. Always close it: worker processes would remain.
    """

    def __init__(self, source: Source, shards: Iterable[tuple[int, Documents]], most: int | None = None) -> None:
        self._workers: WorkerProcesses[Documents, Sequence[Any]] | None = None
        self._prefetcher: Prefetcher[tuple[int, Sequence[Any]]] | None = None
        self._shards: Iterator[tuple[int, Sequence[Any]]]
        if not gpu_waits(source):
            self._shards = map(_prepare_shard(source.prepare), shards)
            return
        count = PREPARING_THREADS
        prepare: Callable[[Documents], Sequence[Any]] = source.prepare
        self._workers = start_workers(prepare, most, use_threads)
        if self._workers is not None:
            count, prepare = self._workers.count, self._workers
        self._prefetcher = Prefetcher(self._iterate(map_ahead(_prepare_shard(prepare), shards, count)), depth=1)
        self._shards = self._prefetcher

    def _iterate(self, shards: Iterator[tuple[int, Sequence[Any]]]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield all shards, and let the workers exit when the last is prepared: that takes them a while."""
        yield from shards
        if self._workers is not None:
            self._workers.finish()

    def __iter__(self) -> Iterator[tuple[int, Sequence[Any]]]:
        return self._shards

    def close(self) -> None:
        """Stop at once, and leave no process and no thread behind."""
        if self._workers is not None:
            self._workers.close()
        if self._prefetcher is not None:
            self._prefetcher.close()


def _prepare_shard(
    prepare: Callable[[Documents], Sequence[Any]],
) -> Callable[[tuple[int, Documents]], tuple[int, Sequence[Any]]]:
    return lambda shard: (shard[0], prepare(shard[1]))


def run_in_process(work: Callable[[], Result]) -> Callable[[], Result]:
    """Like `run_in_thread`, but in a forked process if possible, so that this interpreter stays free.

    >>> found = run_in_process(lambda: 6 * 7)
    >>> found()
    42
    """
    worker: WorkerProcesses[None, Result] | None = start_workers(lambda nothing: work(), 1)
    if worker is None:
        return run_in_thread(work)

    def wait() -> Result:
        with closing(worker):
            return worker(None)

    return run_in_thread(wait)
