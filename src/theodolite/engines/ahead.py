"""Work done ahead: an iterator that runs in a thread while its consumer is busy."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")
Given = TypeVar("Given")
Made = TypeVar("Made")


def beside(work: Callable[[], Made]) -> Callable[[], Made]:
    """Begin work in a thread, and return what waits for it and gives what it made or raises what it raised.

    An interrupted program does not wait for it.

    >>> found = beside(lambda: 6 * 7)
    >>> found()
    42
    """
    promised: Future[Made] = Future()

    def run() -> None:
        try:
            promised.set_result(work())
        except BaseException as error:
            promised.set_exception(error)

    Thread(target=run, name="theodolite-beside", daemon=True).start()
    return promised.result


def ahead_in_order(work: Callable[[Given], Made], items: Iterable[Given], workers: int) -> Iterator[Made]:
    """Yield work(item) in order, up to `workers` of them under way at a time.

    >>> list(ahead_in_order(abs, [-2, 1, -3], workers=2))
    [2, 1, 3]
    """
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="theodolite-prepare") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()


class Ahead(Iterator[Item]):
    """The items in order, up to `depth` of them made in advance by a thread that begins at once."""

    def __init__(self, items: Iterable[Item], depth: int = 8) -> None:
        self._queue: Queue[tuple[Item | None, BaseException | None, bool]] = Queue(depth)
        self._stop = Event()
        self.waited = 0.0  # seconds for which whoever takes the items found none
        self._thread = Thread(target=self._work, args=(items,), name="theodolite-ahead", daemon=True)
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
            if isinstance(items, Generator):  # one that was broken off ends in the thread that ran it
                items.close()
            self._queue.put((None, None, True))

    def __next__(self) -> Item:
        began = time.monotonic()
        item, error, done = self._queue.get()
        self.waited += time.monotonic() - began
        if done:
            self._queue.put((None, error, True))  # whoever asks again is told the same
        if error is not None:
            raise error
        if done:
            raise StopIteration
        return item  # type: ignore[return-value]

    def close(self) -> None:
        """Make no more, and wait until the thread has ended; there are no items from then on."""
        self._stop.set()
        while self._thread.is_alive():  # it may be waiting for room
            self._drain()
            self._thread.join(timeout=0.05)
        self._drain()
        self._queue.put((None, None, True))

    def _drain(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()


def ahead(items: Iterable[Item], depth: int = 8) -> Iterator[Item]:
    """Yield the items in order, up to `depth` of them made in advance; an error comes out where it happened.

    Tokenizing releases the interpreter's lock, so the model need not wait for it.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    with closing(Ahead(items, depth)) as going:
        yield from going
