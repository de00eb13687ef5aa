"""What runs beside a GPU: shards are prepared before the pilot, each once, and weights are hashed."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.small_models import sentences

import theodolite
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.engines import local
from theodolite.engines.local import EarlyStart, LocalEngine, fold_prepared
from theodolite.engines.progress import Listener, Progress
from theodolite.errors import TheodoliteError
from theodolite.models import checkpoint as checkpoint_module
from theodolite.sources import prefetch, worker_processes
from theodolite.sources.worker_processes import WorkerCount
from theodolite.state import checkpoints
from theodolite.state.skipped import Skipped, SkippedDocument
from theodolite.storage.file_names import FACTS, UNFINISHED
from theodolite.surveys import run, text_survey

DOCUMENTS = {3: [(0, "a"), (1, "b")], 5: [(2, "c")], 6: [(3, "d")]}


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Prepare in threads of this process, so that calls can be counted; no thread may remain afterwards."""
    monkeypatch.setattr(worker_processes, "count_workers", lambda pieces: None)
    yield
    assert not multiprocessing.active_children()
    for thread in threading.enumerate():
        if thread.name.startswith("theodolite-"):
            thread.join(timeout=600)  # a thread that has returned its result may not have ended yet
            assert not thread.is_alive(), thread.name


class Counted:
    """A source that records what it prepares and runs."""

    resident = True
    units = SimpleNamespace(open=False)

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.ran: list[str] = []

    def prepare(self, documents: Sequence[tuple[int, str]]) -> list[Any]:
        self.prepared.append("".join(text for _, text in documents))
        return [SimpleNamespace(positions=1, places=None, text=text) for _, text in documents]

    def run(self, prepared: Any, sink: Any) -> None:
        self.ran.append(prepared.text)


def plan(source: Counted, device: str | None = "cuda") -> Any:
    def read(shards: Sequence[int]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        for shard in shards:
            yield shard, list(DOCUMENTS[shard])

    return SimpleNamespace(source=source, device=device, shards=[3, 5, 6], read=read)


def folded(
    source: Counted, early: EarlyStart, shards: Sequence[int] = (3, 5, 6), left_out: Skipped | None = None
) -> None:
    with closing(early.prepare(shards, left_out or Skipped())) as made:
        fold_prepared(source, {}, made, on_step=lambda step: None)  # type: ignore[arg-type]


def test_every_shard_is_prepared_once_and_folded_in_order() -> None:
    source = Counted()
    folded(source, EarlyStart(plan(source)))
    assert sorted(source.prepared) == ["ab", "c", "d"]
    assert source.ran == ["a", "b", "c", "d"]


def test_preparation_starts_without_a_request() -> None:
    source = Counted()
    early = EarlyStart(plan(source))
    wait_until(lambda: len(source.prepared) == prefetch.PREPARING_THREADS + 1)
    assert not source.ran
    early.close()


def test_other_shards_than_those_started_are_prepared_again() -> None:
    source = Counted()
    folded(source, EarlyStart(plan(source)), [5, 6])
    assert source.ran == ["c", "d"]


def test_shards_are_prepared_again_without_skipped_documents() -> None:
    source = Counted()
    left_out = Skipped()
    left_out.add([SkippedDocument(3, 0, "a", "ValueError: no")])
    folded(source, EarlyStart(plan(source)), left_out=left_out)
    assert source.ran == ["b", "c", "d"]


@pytest.mark.parametrize(("device", "open_"), [(None, False), ("cuda", True)])
def test_nothing_starts_without_a_gpu_or_with_open_units(device: str | None, open_: bool) -> None:
    source = Counted()
    source.units = SimpleNamespace(open=open_)  # type: ignore[misc]
    source.resident = device is not None
    early = EarlyStart(plan(source, device))
    assert not threads()
    folded(source, early)
    assert source.prepared == ["ab", "c", "d"]
    assert source.ran == ["a", "b", "c", "d"]


def test_an_error_is_raised_where_the_shard_is_folded() -> None:
    class Fails(Counted):
        def prepare(self, documents: Sequence[tuple[int, str]]) -> list[Any]:
            raise ValueError("a document that no tokenizer takes")

    source = Fails()
    with pytest.raises(ValueError, match="no tokenizer takes"):
        folded(source, EarlyStart(plan(source)))


def test_a_resumed_run_does_not_start_early(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).write_text("{}")
    with LocalEngine() as engine:
        engine.start_early(plan(Counted()), tmp_path)
        assert not threads()
        engine.start_early(plan(Counted()), tmp_path / "new")
        assert threads()
    assert not threads()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("theodolite-")]


def wait_until(so: Callable[[], bool]) -> None:
    import time

    deadline = time.monotonic() + 600
    while not so() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert so()


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the CPU as a GPU: resident sums, and text prepared by two processes with two threads each."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    monkeypatch.setattr(text_survey, "_resident", lambda device: True)
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 2000)
    monkeypatch.setattr(worker_processes, "count_workers", lambda pieces: WorkerCount(2, 2))


def surveyed(small_model: Any, **given: Any) -> Any:
    return theodolite.survey(small_model("bert"), sentences(120, seed=3), device="cpu", sample_size=64, **given)


def test_a_survey_does_not_depend_on_who_prepares_its_text(
    small_model: Any, as_on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_copies = surveyed(small_model)
    assert by_copies.facts["counts"]["shards"] > 3
    assert 0 <= by_copies.facts["times"]["seconds"]["waiting_for_batches"] < 600
    monkeypatch.setattr(prefetch, "gpu_waits", lambda source: False)
    locally = surveyed(small_model)
    for name in ("layers", "tokens"):
        assert getattr(by_copies, name).equals(getattr(locally, name))


def test_a_scan_in_another_process_equals_a_local_scan(as_on_a_gpu: None, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join([*sentences(50, seed=1), "é 東京"]), encoding="utf-8")
    corpus = open_corpus(tmp_path / "corpus.txt")
    assert corpus.plain
    assert prefetch.run_in_process(lambda: scan(corpus, shard_chars=200))() == scan(corpus, shard_chars=200)


class BrokenError(Exception):
    pass


def breaks(*given: Any, **named: Any) -> Any:
    assert multiprocessing.active_children(), "no worker process was started"
    raise BrokenError


@pytest.mark.parametrize(
    ("where", "what"),
    [(local, "take_pilots"), (run, "claim"), (local, "accumulate_on_device")],
    ids=lambda each: str(each),
)
def test_no_process_remains_if_the_pilot_the_folder_or_the_fold_fails(
    small_model: Any, as_on_a_gpu: None, monkeypatch: pytest.MonkeyPatch, where: Any, what: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(where, what, breaks)
    with pytest.raises(BrokenError):
        surveyed(small_model, out=tmp_path / "out")
    assert not multiprocessing.active_children()


def test_an_interrupted_survey_leaves_no_process_and_is_resumed(
    small_model: Any, as_on_a_gpu: None, tmp_path: Path
) -> None:
    class Stops(Listener):
        steps = 0

        def stop(self) -> bool:
            self.steps += 1
            return self.steps == 3

    with pytest.raises(TheodoliteError, match="Interrupted"):
        surveyed(small_model, out=tmp_path / "out", listener=Stops())
    assert not multiprocessing.active_children()
    resumed = surveyed(small_model, out=tmp_path / "out", resume=True)
    whole = surveyed(small_model)
    assert resumed.layers.equals(whole.layers)
    assert resumed.tokens.equals(whole.tokens)


class Hashes:
    """Hashes weights when it is allowed to."""

    def __init__(self, compute: Callable[[Path], str]) -> None:
        self.compute, self.ready = compute, threading.Event()
        self.error: Exception | None = None

    def __call__(self, folder: Path) -> str:
        assert self.ready.wait(600)
        if self.error is not None:
            raise self.error
        return self.compute(folder)


class TestWeightsAreHashedBesideTheFold:
    @pytest.fixture
    def hashes(self, as_on_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hashes]:
        made = Hashes(checkpoint_module.weights_sha256)
        monkeypatch.setattr(checkpoint_module, "weights_sha256", made)
        yield made
        made.ready.set()

    def test_a_gpu_does_not_wait_for_the_hash(self, small_model: Any, hashes: Hashes, tmp_path: Path) -> None:
        class Releases(Listener):
            def progress(self, progress: Progress) -> None:
                hashes.ready.set()

        made = surveyed(small_model, out=tmp_path / "out", listener=Releases())
        expected = checkpoint_module.weights_sha256(small_model("bert"))
        opened = theodolite.load(tmp_path / "out")
        for facts in (made.facts, opened.facts):
            assert facts["model"]["sha256"] == facts["identity"]["model"]["sha256"] == expected
            assert facts["pilot"]["model_sha256"] == expected
        assert opened.pilot.facts["model_sha256"] == expected

    def test_no_checkpoint_is_written_before_the_run_is_recorded(
        self, small_model: Any, hashes: Hashes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep, recorded = checkpoints.FolderRotation.keep, list[bool]()

        def watched(self: Any, write: Any) -> None:
            recorded.append((tmp_path / "out" / UNFINISHED).is_file())
            keep(self, write)

        class Stops(Listener):
            def stop(self) -> bool:
                threading.Timer(0.3, hashes.ready.set).start()
                return True

        monkeypatch.setattr(checkpoints.FolderRotation, "keep", watched)
        with pytest.raises(TheodoliteError, match="Interrupted"):
            surveyed(small_model, out=tmp_path / "out", listener=Stops())
        assert recorded == [True]
        resumed = surveyed(small_model, out=tmp_path / "out", resume=True)
        assert resumed.layers.equals(surveyed(small_model).layers)

    def test_an_interrupted_run_neither_waits_for_the_hash_nor_writes(
        self, small_model: Any, hashes: Hashes, tmp_path: Path
    ) -> None:
        class Interrupts(Listener):
            def progress(self, progress: Progress) -> None:
                raise KeyboardInterrupt

        out = tmp_path / "out"
        with pytest.raises(KeyboardInterrupt):
            surveyed(small_model, out=out, listener=Interrupts())
        hashes.ready.set()
        for thread in threading.enumerate():
            if thread.name == "theodolite-background":
                thread.join(600)
        assert list(out.iterdir()) == []
        surveyed(small_model, out=out)
        assert (out / FACTS).is_file()

    def test_a_failed_fold_does_not_wait_for_the_hash(
        self, small_model: Any, hashes: Hashes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local, "accumulate_on_device", breaks)
        with pytest.raises(BrokenError):
            surveyed(small_model, out=tmp_path / "out")
        assert not hashes.ready.is_set()
        assert not (tmp_path / "out" / UNFINISHED).exists()

    def test_an_error_of_the_hash_is_reported(self, small_model: Any, hashes: Hashes, tmp_path: Path) -> None:
        hashes.error = OSError("the disk does not answer")
        hashes.ready.set()
        with pytest.raises(OSError, match="does not answer"):
            surveyed(small_model, out=tmp_path / "out")
        assert not (tmp_path / "out" / FACTS).exists()
