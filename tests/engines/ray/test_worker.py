"""A worker whose memory runs out, or whose model raises: what it keeps, frees and reports. Without a cluster."""

from __future__ import annotations

import gc
import platform
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engines.ray.comparison import DOCUMENTS, SHARD_CHARS, make_plan
from tests.engines.ray.failing_sources import FAILS_IN_RUN, make_failing_source
from tests.laws.harness import canonical

from theodolite.engines.engine import Plan
from theodolite.engines.ray.bisect import find_failing_documents
from theodolite.engines.ray.worker import Worker
from theodolite.sources.batch_limit import BatchLimit
from theodolite.state.checkpoints import Checkpoints
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.fold import LayerFold
from theodolite.surveys import text_survey

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", SHARD_CHARS)
    monkeypatch.setattr(text_survey, "GPU_SHARD_CHARS", SHARD_CHARS)


@pytest.fixture
def plan(small_model: Any) -> Plan:
    return make_plan(small_model("bert"))


def start(plan: Plan, folder: Path) -> Worker:
    """Return a worker that has loaded the model, with empty sums; it saves only on request."""
    worker = Worker()
    assert plan.remake is not None
    worker.load(plan.remake)
    pilot, populations, size = worker.pilot(plan.pilot_documents), plan.populations, plan.sample_size
    frames = {
        layer.index: pilot.frame(layer, populations=populations, sample_size=size) for layer in plan.source.layers
    }
    worker.restore(folder, frames, plan.corpus_sha256, 3600.0)
    return worker


def fail_above(monkeypatch: pytest.MonkeyPatch, source: Any, most: int) -> list[int]:
    """Let the model raise for batches of more tokens; return the sizes that failed."""
    run, failed = source.run, list[int]()

    def run_or_raise(prepared: Any, sink: Any) -> None:
        if prepared.tokens > most:
            failed.append(prepared.tokens)
            raise torch.OutOfMemoryError("CUDA out of memory")
        run(prepared, sink)

    monkeypatch.setattr(source, "run", run_or_raise)
    return failed


def run_out_of_memory(monkeypatch: pytest.MonkeyPatch, most: int) -> list[int]:
    """Let sums of both kinds raise after more than `most` positions were added; return the sizes that did."""
    failed: list[int] = []

    def patch(kind: Any, method: str, size: Callable[..., int]) -> None:
        add = getattr(kind, method)

        def add_and_raise(self: Any, *given: Any, **named: Any) -> None:
            add(self, *given, **named)
            if size(*given) > most:
                failed.append(size(*given))
                raise torch.OutOfMemoryError("CUDA out of memory")  # a new one: it refers to all frames

        monkeypatch.setattr(kind, method, add_and_raise)

    patch(LayerFold, "update", lambda batch: len(batch.places))
    patch(GpuFold, "_add", lambda states, prepared, measured: len(prepared.layout))
    return failed


def counts(worker: Worker) -> dict[str, list[int]]:
    """Return all counts: integers, which do not depend on the size of batches."""
    found = {
        f"{index}.{name}": part.tolist()
        for index, fold in worker._state.folds.items()
        for name, part in canonical(fold.state()).items()
        if name.endswith((".n", ".codes", "sample.key"))
    }
    return found | {"positions": [worker._state.positions]}


@pytest.mark.parametrize("on_device", [False, True])
def test_shards_whose_sums_were_incomplete_are_repeated_in_smaller_batches(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_device: bool
) -> None:
    monkeypatch.setattr(text_survey, "_resident", lambda device: on_device)
    documents = dict(plan.read(plan.shards))
    whole, worker = start(plan, tmp_path / "whole"), start(plan, tmp_path / "split")
    for shard in range(4):
        assert not whole.fold(shard, documents[shard]).rolled_back
    worker.fold(0, documents[0])
    worker.save()
    worker.fold(1, documents[1])
    failed = run_out_of_memory(monkeypatch, 130)
    result = worker.fold(2, documents[2], (3, documents[3]))
    assert result.rolled_back
    assert (result.failing, result.error) == ((), None)
    lowered, incomplete = result.warnings
    expected = f"{platform.node()}: cpu ran out of memory with 148 tokens: from here on at most 74 tokens"
    assert expected in lowered
    assert incomplete.endswith("the sums of this batch were incomplete: continuing from the last checkpoint")
    assert [shard.index for shard in worker._state.shards] == [0]
    for shard, given in ((3, None), (1, documents[1]), (2, documents[2])):  # shard 3 was prepared meanwhile
        result = worker.fold(shard, given)
        assert (result.rolled_back, result.error, result.warnings) == (False, None, ())
    assert failed == [134]
    assert counts(worker) == counts(whole)


def test_a_limit_holds_for_later_shards(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, documents = start(plan, tmp_path), dict(plan.read(plan.shards))
    failed = fail_above(monkeypatch, worker._source, 100)
    warned = [worker.fold(shard, documents[shard]).warnings for shard in range(3)]
    assert failed == [135]
    assert [len(texts) for texts in warned] == [1, 0, 0]


@pytest.mark.parametrize("reason", ["restored", "the model raises", "memory runs out"])
def test_old_sums_are_freed_before_saved_ones_are_loaded(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(text_survey, "_resident", lambda device: True)
    documents = dict(plan.read(plan.shards))
    if reason == "the model raises":
        plan = replace(plan, remake=partial(make_failing_source, plan.remake))
        documents[2][5] = (documents[2][5][0], f"{documents[2][5][1]} {FAILS_IN_RUN}")
    worker = start(plan, tmp_path)
    worker.fold(0, documents[0])
    worker.save()
    worker.fold(1, documents[1])
    old = [weakref.ref(fold) for fold in worker._state.folds.values()]
    assert all(isinstance(fold(), GpuFold) for fold in old)
    latest, alive = Checkpoints.latest, list[int]()

    def record(*given: Any) -> Any:
        alive.append(sum(fold() is not None for fold in old))
        return latest(*given)

    monkeypatch.setattr(Checkpoints, "latest", record)
    gc.disable()  # it would free what reference cycles keep
    try:
        if reason == "restored":
            worker.restore(*worker._restored)
        else:
            if reason == "memory runs out":
                run_out_of_memory(monkeypatch, 130)
            assert worker.fold(2, documents[2]).rolled_back
    finally:
        gc.enable()
    assert alive == [0]


def test_documents_are_not_at_fault_if_they_fit_in_smaller_batches(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a shard has one document that raises, and another one that is longer than what fits."""
    assert plan.remake is not None
    source = make_failing_source(plan.remake)
    failed = fail_above(monkeypatch, source.source, 128)
    long = " ".join(DOCUMENTS[:20])
    documents = [(0, long), (1, f"{DOCUMENTS[20]} {FAILS_IN_RUN}"), (2, long)]
    found = find_failing_documents(source, 0, documents, BatchLimit())
    assert failed
    assert [(skipped.document, skipped.reason) for skipped in found] == [
        (1, "RuntimeError: the forward pass fails")
    ]
