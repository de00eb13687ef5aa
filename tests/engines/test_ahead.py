"""Work beside the program: its result, its error, and no waiting for it before it is asked for."""

from __future__ import annotations

import threading

import pytest

from theodolite.engines.ahead import beside


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
