"""Prefetching: results in order, errors in their place, and threads that end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from theodolite.sources import prefetch as prefetch_module
from theodolite.sources.prefetch import Prefetcher, map_ahead, prefetch, run_in_thread


def test_work_runs_in_the_background() -> None:
    gate = threading.Event()
    found = run_in_thread(lambda: gate.wait(600))
    gate.set()  # had the work run in this thread, this line would not be reached
    assert found() is True
    assert found() is True


def test_an_error_is_raised_where_the_result_is_requested() -> None:
    def fails() -> None:
        raise ValueError("no such corpus")

    found = run_in_thread(fails)
    with pytest.raises(ValueError, match="no such corpus"):
        found()


def endless(made: list[int], ended: threading.Event) -> Iterator[int]:
    try:
        while True:
            made.append(len(made))
            yield made[-1]
    finally:
        ended.set()


def test_items_are_computed_at_once_up_to_the_depth() -> None:
    made: list[int] = []
    ended = threading.Event()
    going = Prefetcher(endless(made, ended), depth=3)
    deadline = time.monotonic() + 600
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert made == [0, 1, 2, 3]  # three in the queue, and one that waits for a free place
    assert next(going) == 0
    going.close()
    assert ended.is_set()
    assert list(going) == []
    going.close()


def test_an_error_is_raised_after_the_items_before_it_and_again() -> None:
    going = Prefetcher(1 // n for n in (1, 0, 1))
    assert next(going) == 1
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            next(going)
    going.close()


def test_waiting_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0.0, 2.0, 5.0, 6.0, 9.0, 9.5])  # before and after each of two items, and of the end
    monkeypatch.setattr(prefetch_module, "time", SimpleNamespace(monotonic=lambda: next(readings)))
    going = Prefetcher(range(2))
    assert list(going) == [0, 1]
    assert going.waited == 3.5


def test_a_consumer_that_stops_ends_the_work() -> None:
    made: list[int] = []
    ended = threading.Event()
    for item in prefetch(map_ahead(abs, endless(made, ended), 2)):
        if item == 5:
            break
    assert ended.wait(600)
