"""Worker processes, which do not share an interpreter as threads do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
import torch

from theodolite.errors import InputError, TheodoliteError
from theodolite.sources import worker_processes
from theodolite.sources.prefetch import run_in_process
from theodolite.sources.worker_processes import WorkerCount, WorkerProcesses, count_workers

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def children() -> list[int]:
    return [child.pid or 0 for child in multiprocessing.active_children()]


def test_results_of_workers_equal_local_ones() -> None:
    def work(number: int) -> tuple[int, torch.Tensor, None]:
        return os.getpid(), torch.arange(number, dtype=torch.int32).view(-1, 2), None

    with closing(WorkerProcesses(work, 2)) as do, ThreadPoolExecutor(2) as pool:
        found = list(pool.map(do, [2, 4, 600_000]))
    for number, (where, tensor, nothing) in zip((2, 4, 600_000), found, strict=True):
        assert where != os.getpid()
        assert torch.equal(tensor, torch.arange(number, dtype=torch.int32).view(-1, 2))
        assert tensor.dtype == torch.int32
        assert nothing is None
        tensor += 1  # the result is writable


def test_workers_share_the_work_and_end_when_closed() -> None:
    both = multiprocessing.get_context("fork").Barrier(2, timeout=600)  # each waits for the other
    workers = WorkerProcesses(lambda _: both.wait() * 0 + os.getpid(), 2)
    assert len(children()) == 2
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(workers, range(4))) == set(children())
    workers.close()
    workers.close()
    assert not children()


def test_killed_workers_end_and_are_closed_later() -> None:
    workers = WorkerProcesses(time.sleep, 2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(workers, 3600)
        workers.kill()
        with pytest.raises(TheodoliteError, match="died"):
            waiting.result()
    workers.close()
    assert not children()


def test_each_worker_calls_begin_first() -> None:
    calls = []
    with closing(WorkerProcesses(lambda _: list(calls), 1, lambda: calls.append("begin"))) as do:
        assert do(None) == ["begin"]
        assert do(None) == ["begin"]
    assert not calls


def test_an_error_is_raised_in_the_caller_and_the_worker_continues() -> None:
    def work(text: str) -> str:
        if text == "this":
            raise InputError(f"{text}: expected another")
        return text

    with closing(WorkerProcesses(work, 1)) as do:
        with pytest.raises(InputError, match="this: expected another"):
            do("this")
        assert do("that") == "that"


def test_an_error_that_cannot_be_pickled_is_reported() -> None:
    class OwnError(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__(f"{one} and {other}")

    def work(text: str) -> str:
        raise OwnError(1, 2)

    with closing(WorkerProcesses(work, 1)) as do, pytest.raises(TheodoliteError, match="OwnError: 1 and 2"):
        do("this")


def test_a_result_that_cannot_be_pickled_is_reported() -> None:
    with (
        closing(WorkerProcesses(lambda _: threading.Lock(), 1)) as do,
        pytest.raises((TheodoliteError, TypeError), match="lock"),
    ):
        do("this")


def test_a_worker_that_dies_is_reported_each_time() -> None:
    def work(text: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with closing(WorkerProcesses(work, 1)) as do:
        for _ in range(2):
            with pytest.raises(TheodoliteError, match="died"):
                do("this")


def test_closing_does_not_wait_for_work_and_raises_in_waiting_threads() -> None:
    workers = WorkerProcesses(time.sleep, 1)
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(workers, 3600)
        time.sleep(0.1)
        workers.close()
        with pytest.raises(TheodoliteError, match="died"):
            waiting.result()
    assert time.monotonic() - began < 600
    assert not children()


def test_two_threads_close_the_same_workers() -> None:
    """As a run that fails and a thread that waits for a result do. Without a lock, 1 in 10 left a process."""
    for _ in range(60):
        workers = WorkerProcesses(time.sleep, 1)

        def wait(workers: WorkerProcesses[float, None] = workers) -> None:
            with closing(workers), suppress(TheodoliteError):
                workers(3600.0)

        waiting = threading.Thread(target=wait)
        waiting.start()
        workers.close()
        assert not children()
        waiting.join()


KILLED = """
import os, sys, time
from threading import Thread
from theodolite.sources.worker_processes import WorkerProcesses
copies = WorkerProcesses(lambda seconds: time.sleep(seconds), 3)
print(*(process.pid for process in copies._running), flush=True)
Thread(target=copies, args=(float(sys.argv[1]),), daemon=True).start()
time.sleep(0.1)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("task_seconds", [0.3, 10_000], ids=["short task", "endless task"])
def test_no_worker_outlives_a_killed_program(task_seconds: float) -> None:
    command = [sys.executable, "-c", KILLED, str(task_seconds)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert not made.stderr
    left = [int(pid) for pid in made.stdout.split()]
    assert len(left) == 3
    deadline = time.monotonic() + 600
    while any(map(running, left)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(running, left))


def running(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # no parent may be left to reap it
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("cores", "tasks", "expected"),
    [
        (2, None, None),
        (4, None, WorkerCount(2, 1)),
        (8, None, WorkerCount(2, 3)),
        (16, None, WorkerCount(5, 3)),
        (16, 1, WorkerCount(1, 15)),
        (16, 13, WorkerCount(5, 3)),
        (128, None, WorkerCount(8, 15)),
    ],
)
def test_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, cores: int, tasks: int | None, expected: WorkerCount | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert count_workers(tasks) == expected


@pytest.mark.parametrize("worker_count", [WorkerCount(1, 4), None])
def test_run_in_process_returns_the_result_or_raises(
    monkeypatch: pytest.MonkeyPatch, worker_count: WorkerCount | None
) -> None:
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: worker_count)
    found = run_in_process(os.getpid)
    assert (found() == os.getpid()) == (worker_count is None)
    assert found() == found()

    def fails() -> None:
        raise InputError("no such corpus")

    with pytest.raises(InputError, match="no such corpus"):
        run_in_process(fails)()
    assert not children()


def test_without_forks_work_runs_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing.context import ForkProcess

    started, start = [], ForkProcess.start

    def second_fails(process: ForkProcess) -> None:
        started.append(process)
        if len(started) == 2:
            raise OSError(12, "Cannot allocate memory")
        start(process)

    monkeypatch.setattr(ForkProcess, "start", second_fails)
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: WorkerCount(3, 1))
    assert worker_processes.start_workers(abs) is None
    assert not children()
    started[:] = [None]  # type: ignore[list-item]
    assert run_in_process(os.getpid)() == os.getpid()
