"""Copies of this process do the work of threads that would share its interpreter."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import torch

from theodolite.engines import forked
from theodolite.engines.forked import Copies, Room, apart, room_for
from theodolite.errors import InputError, TheodoliteError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def children() -> list[int]:
    return [child.pid or 0 for child in multiprocessing.active_children()]


def test_work_is_done_elsewhere_and_comes_back_as_it_would_here() -> None:
    def work(number: int) -> tuple[int, torch.Tensor, None]:
        return os.getpid(), torch.arange(number, dtype=torch.int32).view(-1, 2), None

    with closing(Copies(work, 2)) as do, ThreadPoolExecutor(2) as pool:
        found = list(pool.map(do, [2, 4, 600_000]))
    for number, (where, tensor, nothing) in zip((2, 4, 600_000), found, strict=True):
        assert where != os.getpid()
        assert torch.equal(tensor, torch.arange(number, dtype=torch.int32).view(-1, 2))
        assert tensor.dtype == torch.int32
        assert nothing is None
        tensor += 1  # is one's own to write to


def test_copies_share_the_work_and_end_when_they_are_closed() -> None:
    copies = Copies(lambda _: time.sleep(0.1) or os.getpid(), 2)
    assert len(children()) == 2
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(copies, range(4))) == set(children())
    copies.close()
    copies.close()
    assert not children()


def test_each_copy_begins_as_it_is_told() -> None:
    told = []
    with closing(Copies(lambda _: list(told), 1, lambda: told.append("begun"))) as do:
        assert do(None) == ["begun"]
        assert do(None) == ["begun"]
    assert not told


def test_an_error_comes_out_where_it_would_here_and_the_copy_goes_on() -> None:
    def work(text: str) -> str:
        if text == "this":
            raise InputError(f"{text}: wanted another")
        return text

    with closing(Copies(work, 1)) as do:
        with pytest.raises(InputError, match="this: wanted another"):
            do("this")
        assert do("that") == "that"


def test_an_error_that_cannot_be_sent_is_told() -> None:
    class OwnError(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__(f"{one} and {other}")

    def work(text: str) -> str:
        raise OwnError(1, 2)

    with closing(Copies(work, 1)) as do, pytest.raises(TheodoliteError, match="OwnError: 1 and 2"):
        do("this")


def test_what_cannot_be_sent_is_told() -> None:
    with (
        closing(Copies(lambda _: threading.Lock(), 1)) as do,
        pytest.raises((TheodoliteError, TypeError), match="lock"),
    ):
        do("this")


def test_a_copy_that_dies_is_told_each_time() -> None:
    def work(text: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with closing(Copies(work, 1)) as do:
        for _ in range(2):
            with pytest.raises(TheodoliteError, match="died"):
                do("this")


def test_closing_does_not_wait_for_work_and_tells_who_waits_for_it() -> None:
    copies = Copies(time.sleep, 1)
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(copies, 60)
        time.sleep(0.1)
        copies.close()
        with pytest.raises(TheodoliteError, match="died"):
            waiting.result()
    assert time.monotonic() - began < 10
    assert not children()


KILLED = """
import os, sys, time
from threading import Thread
from theodolite.engines.forked import Copies
copies = Copies(lambda seconds: time.sleep(seconds), 3)
print(*(process.pid for process in copies._running), flush=True)
Thread(target=copies, args=(0.3,), daemon=True).start()
time.sleep(0.1)
os.kill(os.getpid(), 9)
"""


def test_no_copy_outlives_a_program_that_is_killed() -> None:
    made = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=60)
    assert not made.stderr
    left = [int(pid) for pid in made.stdout.split()]
    assert len(left) == 3
    deadline = time.monotonic() + 10
    while any(map(running, left)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(running, left))


def running(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # nobody may be there to bury it
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("cores", "pieces", "room"),
    [
        (2, None, None),
        (4, None, Room(2, 1)),
        (8, None, Room(2, 3)),
        (16, None, Room(5, 3)),
        (16, 1, Room(1, 15)),
        (16, 13, Room(5, 3)),
        (128, None, Room(8, 15)),
    ],
)
def test_few_cores_are_left_alone_and_many_are_used(
    monkeypatch: pytest.MonkeyPatch, cores: int, pieces: int | None, room: Room | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert room_for(pieces) == room


@pytest.mark.parametrize("room", [Room(1, 4), None])
def test_work_apart_gives_what_it_makes_or_raises(monkeypatch: pytest.MonkeyPatch, room: Room | None) -> None:
    monkeypatch.setattr(forked, "room_for", lambda pieces: room)
    found = apart(os.getpid)
    assert (found() == os.getpid()) == (room is None)
    assert found() == found()

    def fails() -> None:
        raise InputError("no such corpus")

    with pytest.raises(InputError, match="no such corpus"):
        apart(fails)()
    assert not children()


def test_a_system_that_makes_no_copies_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing.context import ForkProcess

    begun, start = [], ForkProcess.start

    def second_fails(process: ForkProcess) -> None:
        begun.append(process)
        if len(begun) == 2:
            raise OSError(12, "Cannot allocate memory")
        start(process)

    monkeypatch.setattr(ForkProcess, "start", second_fails)
    monkeypatch.setattr(forked, "room_for", lambda pieces: Room(3, 1))
    assert forked.forked(abs) is None
    assert not children()
    begun[:] = [None]  # type: ignore[list-item]
    assert apart(os.getpid)() == os.getpid()
