"""Work beside the program and ahead of it: results in order, errors where they belong, and an end to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from theodolite.engines.ahead import Ahead, ahead, ahead_in_order, beside


def test_work_goes_on_meanwhile() -> None:
    gate = threading.Event()
    found = beside(lambda: gate.wait(10))
    gate.set()  # had it been done at once, nobody would have come here
    assert found() is True
    assert found() is True


def test_an_error_comes_out_where_it_is_asked_for() -> None:
    def fails() -> None:
        raise ValueError("no such corpus")

    found = beside(fails)
    with pytest.raises(ValueError, match="no such corpus"):
        found()


def endless(made: list[int], ended: threading.Event) -> Iterator[int]:
    try:
        while True:
            made.append(len(made))
            yield made[-1]
    finally:
        ended.set()


def test_items_are_made_at_once_so_many_and_no_more() -> None:
    made: list[int] = []
    ended = threading.Event()
    going = Ahead(endless(made, ended), depth=3)
    deadline = time.monotonic() + 5
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert made == [0, 1, 2, 3]  # three that wait, and one for which there is no room
    assert next(going) == 0
    going.close()
    assert ended.is_set()
    assert list(going) == []
    going.close()


def test_an_item_s_error_comes_after_those_before_it_and_again() -> None:
    going = Ahead(1 // n for n in (1, 0, 1))
    assert next(going) == 1
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            next(going)
    going.close()


def test_waiting_is_counted() -> None:
    going = Ahead(time.sleep(0.2) or n for n in range(2))
    assert list(going) == [0, 1]
    assert 0.3 < going.waited < 5
    ready = Ahead(range(2))
    time.sleep(0.3)
    assert list(ready) == [0, 1]
    assert ready.waited < 0.2


def test_a_consumer_that_leaves_ends_the_work() -> None:
    made: list[int] = []
    ended = threading.Event()
    for item in ahead(ahead_in_order(abs, endless(made, ended), 2)):
        if item == 5:
            break
    assert ended.wait(5)
