"""Work done ahead: an iterator that runs in a thread while its consumer is busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def ahead(items: Iterable[Item], depth: int = 8) -> Iterator[Item]:
    """Yield the items in order, up to `depth` of them made in advance; an error comes out where it happened.

    Tokenizing releases the interpreter's lock, so the model need not wait for it.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    queue: Queue[tuple[Item | None, BaseException | None, bool]] = Queue(depth)
    stop = Event()

    def work() -> None:
        try:
            for item in items:
                if stop.is_set():
                    return
                queue.put((item, None, False))
        except BaseException as error:
            queue.put((None, error, True))
        else:
            queue.put((None, None, True))

    thread = Thread(target=work, name="theodolite-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error, done = queue.get()
            if error is not None:
                raise error
            if done:
                return
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        while thread.is_alive():  # the worker may be waiting for room
            while not queue.empty():
                queue.get_nowait()
            thread.join(timeout=0.05)
