"""Copies of this process do the work of threads that would share its interpreter."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.small_models import sentences

from theodolite.engines import local
from theodolite.engines.forked import forked, room_for
from theodolite.errors import InputError, TheodoliteError

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
pytestmark = needs_fork


def test_work_is_done_elsewhere_and_comes_back_as_it_would_here() -> None:
    def work(number: int) -> tuple[int, torch.Tensor, None]:
        return os.getpid(), torch.arange(number, dtype=torch.int32).view(-1, 2), None

    with forked(work, 2) as do, ThreadPoolExecutor(2) as pool:
        found = list(pool.map(do, [2, 4, 600_000]))
    for number, (where, tensor, nothing) in zip((2, 4, 600_000), found, strict=True):
        assert where != os.getpid()
        assert torch.equal(tensor, torch.arange(number, dtype=torch.int32).view(-1, 2))
        assert tensor.dtype == torch.int32
        assert nothing is None
        tensor += 1  # is one's own to write to


def test_no_copy_is_made_without_work() -> None:
    with forked(abs, 4) as do:
        assert len(_children()) == 0
        assert do(-3) == 3
        assert do(-4) == 4
        assert len(_children()) == 1
    assert not _children()


def _children() -> list[int]:
    import multiprocessing

    return [child.pid or 0 for child in multiprocessing.active_children()]


def test_an_error_comes_out_where_it_would_here() -> None:
    def work(text: str) -> str:
        raise InputError(f"{text}: wanted another")

    with forked(work, 1) as do, pytest.raises(InputError, match="this: wanted another"):
        do("this")


def test_an_error_that_cannot_be_sent_is_told() -> None:
    class OwnError(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__(f"{one} and {other}")

    def work(text: str) -> str:
        raise OwnError(1, 2)

    with forked(work, 1) as do, pytest.raises(TheodoliteError, match="OwnError: 1 and 2"):
        do("this")


def test_a_copy_that_dies_is_told() -> None:
    def work(text: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with forked(work, 1) as do, pytest.raises(TheodoliteError, match="died"):
        do("this")


def test_few_cores_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(2)), raising=False)
    assert room_for() == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    assert room_for() == 8


@pytest.fixture
def prepared_by_copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has shards prepared by two copies; tells how many were asked for."""
    asked: list[int] = []

    def counted(work: Any, copies: int) -> Any:
        asked.append(copies)
        return forked(work, copies)

    monkeypatch.setattr(local, "room_for", lambda: 2)
    monkeypatch.setattr(local, "forked", counted)
    return asked


@pytest.mark.parametrize("resident", [True, False])
def test_a_source_is_prepared_by_copies_in_the_same_order(
    small_model: Any, prepared_by_copies: list[int], resident: bool
) -> None:
    from theodolite.sources.text.checkpoint import load_model, load_tokenizer, resolve
    from theodolite.sources.text.source import TextSource

    checkpoint = resolve(str(small_model("bert")))
    model = load_model(checkpoint, dtype="float32", device="cpu")
    source = TextSource(model, load_tokenizer(checkpoint), batch_tokens=64, resident=resident)
    texts = list(enumerate(sentences(60, seed=3, longest=12)))
    shards = [(index, texts[10 * index : 10 * index + 10]) for index in range(6)]
    found = list(local._steps(source, iter(shards), 0, lambda shard, documents: None))
    assert prepared_by_copies == ([2] if resident else [])
    wanted = [(index, batch) for index, documents in shards for batch in source.prepare(documents)]
    assert [step.shard for _, step in found] == [index for index, _ in wanted]
    for (batch, _), (_, other) in zip(found, wanted, strict=True):
        assert torch.equal(batch.ids, other.ids)
        assert torch.equal(batch.places.key, other.places.key)
        assert batch.windows == other.windows
