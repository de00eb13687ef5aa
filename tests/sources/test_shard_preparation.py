"""Shards prepared in advance: the same batches in the same order, errors in their place, nothing left running."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import torch
from tests.shared import slow
from tests.small_models import sentences

from theodolite.errors import TheodoliteError
from theodolite.sources import prefetch, worker_processes
from theodolite.sources.prefetch import ShardPreparation
from theodolite.sources.text.source import TextSource
from theodolite.sources.worker_processes import WorkerCount

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
SHARDS = [(index, list(enumerate(sentences(60, seed=index, longest=12)))) for index in range(7)]


@pytest.fixture(
    params=[WorkerCount(2, 1), slow(WorkerCount(3, 3)), None],
    ids=["two workers", "three workers of three threads", "threads"],
)
def worker_count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WorkerCount | None:
    """Set the worker processes that prepare shards."""
    if request.param is not None and not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: request.param)
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def no_process_or_thread_remains() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert not multiprocessing.active_children()
    # The first progress bar of a process starts a thread of tqdm, which stays.
    left = [thread for thread in threading.enumerate() if type(thread).__name__ != "TMonitor"]
    assert set(left) <= before


def text_source(small_model: Any, *, resident: bool = True, kind: str = "id") -> TextSource:
    from theodolite.models.checkpoint import load_model, load_tokenizer, resolve

    checkpoint = resolve(str(small_model("bert")))
    model = load_model(checkpoint, dtype="float32", device="cpu")
    return TextSource(model, load_tokenizer(checkpoint), kind=kind, batch_tokens=64, resident=resident)


def assert_same(batch: Any, other: Any) -> None:
    assert torch.equal(batch.ids, other.ids)
    assert torch.equal(batch.mask, other.mask)
    assert torch.equal(batch.rows, other.rows)
    for name in ("unit", "group", "first", "key", "context", "window"):
        one, two = getattr(batch.places, name), getattr(other.places, name)
        assert one.dtype == two.dtype
        assert torch.equal(one, two)
    assert batch.windows == other.windows


@pytest.mark.parametrize("together", [16, 4096])  # few characters to a group: many slices for the threads
def test_the_same_batches_in_the_same_order(
    small_model: Any, worker_count: WorkerCount | None, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    from theodolite.sources.text import encoding

    source = text_source(small_model)
    expected = [(index, source.prepare(documents)) for index, documents in SHARDS]
    monkeypatch.setattr(encoding, "TOGETHER", together)
    with closing(ShardPreparation(source, iter(SHARDS), len(SHARDS))) as made:
        found = list(made)
    assert [index for index, _ in found] == [index for index, _ in SHARDS]
    for (_, batches), (_, others) in zip(found, expected, strict=True):
        for batch, other in zip(batches, others, strict=True):
            assert_same(batch, other)


def test_words_and_cpu_sources_are_prepared_on_request(small_model: Any, worker_count: WorkerCount | None) -> None:
    for source in (text_source(small_model, kind="word"), text_source(small_model, resident=False)):
        requested: list[int] = []

        def shards(requested: list[int] = requested) -> Iterator[tuple[int, Any]]:
            for index, documents in SHARDS:
                requested.append(index)
                yield index, documents

        with closing(ShardPreparation(source, shards())) as made:
            assert not requested
            assert next(iter(made))[0] == 0
            assert requested == [0]
            assert not multiprocessing.active_children()


class Stub:
    """A source that prepares whatever its documents say."""

    resident = True

    class units:  # noqa: N801
        open = False

    def prepare(self, documents: list[tuple[int, Any]]) -> list[Any]:
        return [what() if callable(what) else what for _, what in documents]


def fails() -> None:
    raise ValueError("a document that no tokenizer takes")


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_preparation_starts_at_once_and_stays_within_the_limit(worker_count: WorkerCount | None) -> None:
    read: list[int] = []

    def shards() -> Iterator[tuple[int, list[tuple[int, Any]]]]:
        for index in range(20):
            read.append(index)
            yield index, [(0, index)]

    workers = worker_count.processes if worker_count else prefetch.PREPARING_THREADS
    with closing(ShardPreparation(Stub(), shards())) as made:  # type: ignore[arg-type]
        deadline = time.monotonic() + 600
        while len(read) < workers + 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(read) == workers + 1
        assert list(made) == [(index, [index]) for index in range(20)]


@needs_fork
def test_workers_exit_when_all_shards_are_prepared(monkeypatch: pytest.MonkeyPatch, small_model: Any) -> None:
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: WorkerCount(2, 1))
    with closing(ShardPreparation(text_source(small_model), iter(SHARDS), len(SHARDS))) as made:
        shards = iter(made)
        assert next(shards)[0] == SHARDS[0][0]
        assert multiprocessing.active_children()
        assert [index for index, _ in shards] == [index for index, _ in SHARDS[1:]]
        until = time.monotonic() + 600
        while multiprocessing.active_children():
            assert time.monotonic() < until
            time.sleep(0.01)


def test_an_error_is_raised_at_its_shard_and_again(worker_count: WorkerCount | None) -> None:
    shards = [(0, [(0, "a")]), (1, [(0, fails)]), (2, [(0, "b")])]
    with closing(ShardPreparation(Stub(), shards)) as made:  # type: ignore[arg-type]
        each = iter(made)
        assert next(each) == (0, ["a"])
        for _ in range(2):
            with pytest.raises(ValueError, match="no tokenizer takes"):
                next(each)


def test_a_reading_error_is_raised(worker_count: WorkerCount | None) -> None:
    def shards() -> Iterator[tuple[int, list[tuple[int, Any]]]]:
        yield 0, [(0, "a")]
        raise TheodoliteError("the corpus has changed")

    with (
        closing(ShardPreparation(Stub(), shards())) as made,  # type: ignore[arg-type]
        pytest.raises(TheodoliteError, match="has changed"),
    ):
        list(made)


@needs_fork
def test_a_killed_worker_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: WorkerCount(2, 1))
    with (
        closing(ShardPreparation(Stub(), [(0, [(0, "a")]), (1, [(0, dies)])])) as made,  # type: ignore[arg-type]
        pytest.raises(TheodoliteError, match="prepares text died"),
    ):
        list(made)


@needs_fork
def test_closing_does_not_wait_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: WorkerCount(2, 1))
    began = time.monotonic()
    made = ShardPreparation(Stub(), [(index, [(0, lambda: time.sleep(3600))]) for index in range(3)])  # type: ignore[arg-type]
    time.sleep(0.1)
    made.close()
    made.close()
    assert time.monotonic() - began < 600
