"""Every shard is counted once, whichever worker dies when. Runs workers in this process: no cluster is needed."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.devices import DEVICES
from tests.engines.ray.comparison import (
    CLOSE,
    DOCUMENTS,
    SHARD_CHARS,
    assert_same_bits,
    assert_same_numbers,
    make_plan,
)
from tests.engines.ray.failing_sources import FAILS_IN_PREPARE, FAILS_IN_RUN, make_failing_source
from tests.engines.ray.local_pool import DriverKilledError, Fate, LocalPool
from tests.shared import slow

from theodolite.engines.engine import Plan
from theodolite.engines.gpu import move_to_device
from theodolite.engines.progress import Listener
from theodolite.engines.ray import driver, engine, merge_states, worker
from theodolite.engines.ray.engine import RayEngine
from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.text.contexts import ContextReader
from theodolite.sources.text.source import TextSource
from theodolite.state import checkpoints
from theodolite.statistics.fold import LayerFold
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.merge import merge
from theodolite.surveys.run import run

pytestmark = pytest.mark.usefixtures("one_thread")


class RecordingListener(Listener):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        self.shares: list[float] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def progress(self, progress: Any) -> None:
        self.shares.append(progress.share)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))  # a checkpoint whenever one is due


@pytest.fixture(
    autouse=True,
    params=[False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["one shard at a time", "next shard prepared meanwhile"],
)
def preparing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let workers prepare the next shard, as they do with GPUs, except for words, which are numbered in order."""
    monkeypatch.setattr(
        driver, "prepares_ahead", lambda work, pool: request.param and not work.plan.source.units.open
    )
    return bool(request.param)


@pytest.fixture
def plan(small_model: Any) -> Plan:
    return make_plan(small_model("bert"))


@pytest.fixture(scope="module")
def local(one_thread: None, small_model: Any) -> Any:
    """Give the survey of the same plan by the local engine, to be read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
        return run(make_plan(small_model("bert")))


def run_with(plan: Plan, out: Path, pool: LocalPool, **options: Any) -> Any:
    with RayEngine(out, pool) as engine:
        return run(plan, out=out, engine=engine, **options)


def elsewhere(pool: LocalPool, folder: Path, who: Callable[[str], bool] = lambda name: True) -> LocalPool:
    """Give these workers another folder in place of the survey's, as on machines that do not share a disk."""
    call = pool.call

    def call_elsewhere(name: str, method: str, *arguments: Any) -> None:
        if method == "inspect" and who(name):
            arguments = (folder / arguments[0].name, *arguments[1:])
        call(name, method, *arguments)

    pool.call = call_elsewhere  # type: ignore[method-assign]
    return pool


class TestUndisturbed:
    def test_one_worker_gives_the_bits_of_the_local_engine(self, plan: Plan, local: Any, tmp_path: Path) -> None:
        survey = run_with(plan, tmp_path / "one", LocalPool(1))
        run(plan, out=tmp_path / "local")
        assert_same_bits(survey, local)
        for table in ("layers", "tokens", "units"):
            assert getattr(survey, table).equals(getattr(local, table))
        assert {path.name for path in (tmp_path / "one").iterdir()} == {
            path.name for path in (tmp_path / "local").iterdir()
        }

    @pytest.mark.parametrize(("family", "kind"), [("bert", "id"), slow("gpt2", "word")])
    def test_three_workers_give_the_numbers(
        self, small_model: Any, tmp_path: Path, family: str, kind: str
    ) -> None:
        plan = make_plan(small_model(family), units=kind)
        alone, pool = run(plan, out=tmp_path / "local"), LocalPool(3, seed=5)
        listener = RecordingListener()
        survey = run_with(make_plan(small_model(family), units=kind), tmp_path / "three", pool, listener=listener)
        assert_same_numbers(survey, alone)
        assert {name for name, _ in pool.shards} == {"w1", "w2", "w3"}
        assert sorted(shard for _, shard in pool.shards) == list(plan.shards)
        assert listener.shares == sorted(listener.shares)
        assert listener.shares[-1] == pytest.approx(1)
        assert survey.facts["engine"]["workers"] == 3

    @pytest.mark.slow
    def test_groups_of_a_field_are_those_of_the_local_engine(self, small_model: Any, tmp_path: Path) -> None:
        rows = [{"text": text, "source": "abc"[at * at % 5 % 3]} for at, text in enumerate(DOCUMENTS)]
        plans = [make_plan(small_model("bert"), rows, by="source") for _ in range(2)]
        alone = run(plans[0], out=tmp_path / "local")
        survey = run_with(plans[1], tmp_path / "three", LocalPool(3, seed=2))
        assert survey.groups["n"].tolist() == alone.groups["n"].tolist()
        numbers = (each.groups.select_dtypes("number").to_numpy(float) for each in (survey, alone))
        assert np.allclose(*numbers, rtol=CLOSE, atol=CLOSE, equal_nan=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("device", DEVICES)
    def test_workers_that_keep_their_sums_on_a_device_give_the_bits_of_one_process(
        self, small_model: Any, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On the CPU only because the test requests it."""
        monkeypatch.setattr(text_surveys, "_resident", lambda kind: True)
        monkeypatch.setattr(text_surveys, "GPU_SHARD_CHARS", SHARD_CHARS)
        kept: list[str] = []
        monkeypatch.setattr(
            worker,
            "move_to_device",
            lambda state, where, *more: kept.append(where) or move_to_device(state, where),
        )
        alone = run(make_plan(small_model("bert"), device=device), out=tmp_path / "local")
        survey = run_with(make_plan(small_model("bert"), device=device), tmp_path / "one", LocalPool(1))
        assert_same_bits(survey, alone)
        assert [where.partition(":")[0] for where in kept] == [device]

    def test_a_shard_is_sent_and_prepared_once(
        self, plan: Plan, local: Any, tmp_path: Path, preparing: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool, sent, prepared = LocalPool(1), list[int](), list[int]()
        call, prepare = pool.call, TextSource.prepare

        def record(name: str, method: str, *arguments: Any) -> None:
            if method == "fold":
                shard, documents, following = arguments
                sent.extend([shard] if documents is not None else [])
                sent.extend([following[0]] if following is not None else [])
            call(name, method, *arguments)

        def counted(source: TextSource, documents: Any, only: Any = None) -> Any:
            prepared.append(len(documents))
            return prepare(source, documents, only)

        monkeypatch.setattr(pool, "call", record)
        monkeypatch.setattr(TextSource, "prepare", counted)
        # The contexts of units are read afterwards, from the finished sums.
        monkeypatch.setattr(ContextReader, "prepare", lambda self, documents: prepare(self.source, documents))
        survey = run_with(plan, tmp_path / "one", pool)
        assert_same_bits(survey, local)
        assert sent == list(plan.shards)
        assert len(prepared) == len(plan.shards) + 1  # and the pilot

    @pytest.mark.slow
    def test_a_shard_prepared_by_a_busy_worker_goes_to_an_idle_one(
        self, plan: Plan, local: Any, tmp_path: Path
    ) -> None:
        class Slow(LocalPool):
            """The first worker replies only when no other has a reply."""

            def replies(self, timeout: float) -> list[Any]:
                self.calls.sort(key=lambda call: (call[1] == "fold" and call[0] == "w1", call[0]))
                return super().replies(timeout)

        pool = Slow(2)
        pool.rng.randrange = lambda count: 0  # type: ignore[method-assign, assignment]
        survey = run_with(plan, tmp_path / "two", pool)
        assert_same_numbers(survey, local)
        assert [name for name, _ in pool.shards].count("w1") == 1
        assert sorted(shard for _, shard in pool.shards) == list(plan.shards)

    @pytest.mark.slow
    def test_the_merge_is_a_tree(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(merge_states.merge_states, "__defaults__", (2,))
        survey = run_with(plan, tmp_path / "five", LocalPool(5, seed=2))
        assert_same_numbers(survey, local)


class TestDeaths:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(6))
    def test_each_shard_counts_once_whoever_dies_when(
        self, plan: Plan, local: Any, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = random.Random(seed)
        left = 5

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal left
            if method in ("inspect", "load", "pilot") or not left or rng.random() > 0.3:
                return None
            left -= 1
            return rng.choice(["before", "after"])

        listener = RecordingListener()
        survey = run_with(
            plan, tmp_path / "out", LocalPool(3, fate=fate, seed=seed), listener=listener, checkpoint_every=0.0
        )
        assert left < 5
        assert_same_numbers(survey, local)
        assert survey.facts["engine"]["workers_lost"] == 5 - left
        assert "a worker was lost (the machine is gone)" in listener.warned[0]

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(4))
    def test_unsaved_shards_are_repeated(self, plan: Plan, local: Any, tmp_path: Path, seed: int) -> None:
        died = False

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal died
            if method == "fold" and arguments[0] == len(plan.shards) // 2 and not died:
                died = True
                return "after"
            return None

        pool = LocalPool(2, fate=fate, seed=seed)
        survey = run_with(plan, tmp_path / "out", pool, checkpoint_every=3600.0)
        assert len(pool.shards) > len(plan.shards)  # some were folded twice, and count once
        assert_same_numbers(survey, local)

    def test_a_worker_believed_dead_that_still_saves_changes_nothing(
        self, plan: Plan, local: Any, tmp_path: Path
    ) -> None:
        """The naive way, to continue in the same folder, would count its shards twice or lose them."""
        shards = len(plan.shards)
        pool = LocalPool(2)

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            for zombie in pool.dead.values():
                zombie.call("fold", *arguments) if method == "fold" else None
                zombie.call("save")
            return "after" if method == "fold" and arguments[0] == shards // 2 and not pool.dead else None

        pool.fate = fate
        survey = run_with(plan, tmp_path / "out", pool, checkpoint_every=0.0)
        assert len(pool.dead) == 1
        assert_same_numbers(survey, local)

    @pytest.mark.slow
    def test_a_shard_at_which_all_workers_die_is_skipped_and_reported(self, plan: Plan, tmp_path: Path) -> None:
        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "before" if method == "fold" and arguments[0] == 2 else None

        listener = RecordingListener()
        survey = run_with(plan, tmp_path / "out", LocalPool(2, fate=fate), listener=listener)
        assert [shard.index for shard in survey.state.shards] == [index for index in plan.shards if index != 2]
        (lost,) = survey.facts["corpus"]["left_out"]["shards"]
        assert lost["shard"] == 2
        assert "3 workers died at it; the last: the machine is gone" in lost["reason"]
        assert survey.facts["counts"]["left_out"] == lost["documents"] > 0
        assert "all of shard 2" in listener.warned[-1]

    def test_workers_that_always_die_end_the_run_with_an_error(self, plan: Plan, tmp_path: Path) -> None:
        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "before" if method == "restore" else None

        with pytest.raises(
            TheodoliteError, match=r"No worker is left: each died 5 times .*with --resume to continue"
        ):
            run_with(plan, tmp_path / "out", LocalPool(2, fate=fate))


class TestResume:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(4))
    def test_the_driver_dies_repeatedly(self, plan: Plan, local: Any, tmp_path: Path, seed: int) -> None:
        out, rng = tmp_path / "out", random.Random(seed)

        def dying(after: int) -> Fate:
            count = 0

            def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
                nonlocal count
                count += method in ("fold", "save")
                return "driver" if count > after else None

            return fate

        for after in (1, 3, 4):
            pool = LocalPool(rng.choice([1, 2, 3]), fate=dying(after), seed=seed)
            with pytest.raises(DriverKilledError):
                run_with(plan, out, pool, resume=True, checkpoint_every=0.0)
        pool = LocalPool(2)
        survey = run_with(plan, out, pool, resume=True, checkpoint_every=0.0)
        assert len(pool.shards) < len(plan.shards)  # what was saved is not folded again
        assert_same_numbers(survey, local)
        assert not (out / "workers").exists()

    @pytest.mark.slow
    def test_the_local_engine_resumes_a_run_of_a_cluster(self, plan: Plan, local: Any, tmp_path: Path) -> None:
        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "driver" if method == "fold" and arguments[0] == 6 else None

        out = tmp_path / "out"
        with pytest.raises(DriverKilledError):
            run_with(plan, out, LocalPool(2, fate=fate), checkpoint_every=0.0)
        listener = RecordingListener()
        survey = run(plan, out=out, resume=True, listener=listener)
        assert any(said.startswith("resuming after") for said in listener.said)
        assert_same_numbers(survey, local)

    @pytest.mark.slow
    @pytest.mark.parametrize("between", [True, False])
    def test_a_cluster_resumes_a_local_run_that_stopped_between_shards(
        self, plan: Plan, local: Any, tmp_path: Path, between: bool
    ) -> None:
        class Stops(Listener):
            batches = 0

            def stop(self) -> bool:
                self.batches += 1
                return self.batches == stop_at

        per_shard = [len(plan.source.prepare(documents)) for _, documents in plan.read(plan.shards)]
        stop_at = sum(per_shard[:3]) + (0 if between else 1)
        assert per_shard[3] > 1
        out = tmp_path / "out"
        with pytest.raises(TheodoliteError, match="Interrupted after"):
            run(plan, out=out, listener=Stops())
        if not between:
            with pytest.raises(
                InputError,
                match=r"started with --engine local and stopped within a shard\. Resume it with --engine local",
            ):
                run_with(plan, out, LocalPool(2), resume=True)
            return
        pool = LocalPool(2)
        survey = run_with(plan, out, pool, resume=True)
        assert sorted(shard for _, shard in pool.shards) == list(plan.shards)[3:]
        assert_same_numbers(survey, local)

    def test_stopped_by_the_user_all_is_saved(self, plan: Plan, local: Any, tmp_path: Path) -> None:
        class Stops(RecordingListener):
            def stop(self) -> bool:
                return len(self.shares) > 2

        out = tmp_path / "out"
        with pytest.raises(TheodoliteError, match=r"Interrupted after [\d,]+ positions, all saved"):
            run_with(plan, out, LocalPool(2), listener=Stops())
        assert_same_numbers(run_with(plan, out, LocalPool(2), resume=True), local)


class TestFailingDocuments:
    @pytest.mark.slow
    @pytest.mark.parametrize("marker", [FAILS_IN_PREPARE, FAILS_IN_RUN])
    @pytest.mark.parametrize("seed", range(2))
    def test_only_the_failing_document_is_skipped_and_reported(
        self, small_model: Any, tmp_path: Path, marker: str, seed: int
    ) -> None:
        bad = {40: f"{DOCUMENTS[40]} {marker}", 71: f"{marker} {DOCUMENTS[71]}"}
        documents = [bad.get(number, text) for number, text in enumerate(DOCUMENTS)]
        plan = make_plan(small_model("bert"), documents)
        plan = replace(plan, remake=partial(make_failing_source, plan.remake))
        listener = RecordingListener()
        survey = run_with(
            plan, tmp_path / "out", LocalPool(2, seed=seed), listener=listener, checkpoint_every=3600.0
        )
        skipped = survey.facts["corpus"]["left_out"]["documents"]
        assert [each["document"] for each in skipped] == [40, 71]
        assert survey.facts["counts"]["left_out"] == 2
        reason = (
            "ValueError: cannot read document 40"
            if marker == FAILS_IN_PREPARE
            else "RuntimeError: the forward pass fails"
        )
        assert skipped[0]["reason"] == reason
        assert "2 documents were skipped: document 40 ('" in listener.warned[-1]
        assert reason in listener.warned[-1]
        # The oracle: the local engine, never shown the two documents, with the same shards and the same pilot.
        read = plan.read

        def without(shards: Any) -> Any:
            for shard, numbered in read(shards):
                yield shard, [each for each in numbered if each[0] not in bad]

        assert_same_numbers(survey, run(replace(plan, read=without, pilot_from=tmp_path / "out")))

    @pytest.mark.slow
    def test_a_shard_without_a_single_failing_document_is_repeated_then_skipped(
        self, plan: Plan, tmp_path: Path
    ) -> None:
        ((_, documents),) = plan.read([1])
        remake = partial(broken, plan.remake, documents[0][0], len(documents))
        survey = run_with(replace(plan, remake=remake), tmp_path / "out", LocalPool(2))
        (lost,) = survey.facts["corpus"]["left_out"]["shards"]
        assert lost["shard"] == 1
        assert lost["reason"] == "RuntimeError: too many at once"


def broken(remake: Callable[[], Any], first: int, count: int) -> Any:
    """Make a source that fails at one complete shard, and at no single document of it."""
    source = remake()
    prepare = source.prepare

    def failing(documents: Any) -> Any:
        if len(documents) == count and documents[0][0] == first:
            raise RuntimeError("too many at once")
        return prepare(documents)

    source.prepare = failing
    return source


class TestFaults:
    def test_a_full_disk_is_reported_and_nothing_is_lost(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save, full = checkpoints.Checkpoints.save, 4

        def failing(self: Any, state: Any) -> None:
            nonlocal full
            if full:
                full -= 1
                raise OSError(errno.ENOSPC, "No space left on device")
            save(self, state)

        monkeypatch.setattr(checkpoints.Checkpoints, "save", failing)
        listener = RecordingListener()
        survey = run_with(plan, tmp_path / "out", LocalPool(2), listener=listener, checkpoint_every=0.0)
        assert "No space left on device" in listener.warned[0]
        assert "The sums stay in memory; saving will be tried again" in listener.warned[0]
        assert_same_numbers(survey, local)

    def test_sums_that_do_not_fit_are_repeated_in_smaller_batches(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Memory runs out while sums are added: no shard is skipped, lost or counted twice."""
        update, updates, failed = LayerFold.update, list[int](), list[int]()

        def update_or_raise(fold: LayerFold, batch: Any, **more: Any) -> None:
            update(fold, batch, **more)
            updates.append(len(batch.places))
            if len(updates) > 20 and updates[-1] > 130:
                failed.append(updates[-1])
                raise torch.OutOfMemoryError("CUDA out of memory")

        with monkeypatch.context() as patch:
            patch.setattr(LayerFold, "update", update_or_raise)
            listener, pool = RecordingListener(), LocalPool(2)
            made = run_with(plan, tmp_path / "out", pool, listener=listener, checkpoint_every=3600.0)
        assert len(failed) <= 2  # once for each worker
        assert len(pool.shards) > len(plan.shards) + len(failed)  # shards that were not saved were repeated too
        assert sum("continuing from the last checkpoint" in text for text in listener.warned) == len(failed)
        assert made.facts["counts"]["left_out"] == 0
        assert made.state.shards == local.state.shards
        assert made.state.positions == local.state.positions
        assert made.tokens["n"].equals(local.tokens["n"])
        for column in "qmv":  # forward passes of other batches are rounded differently, in float32
            scale = local.tokens[column].max()
            assert np.allclose(made.tokens[column] / scale, local.tokens[column] / scale, atol=1e-5)

    @pytest.mark.slow
    def test_a_disk_that_stays_full_ends_the_run_with_an_error(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: Any, state: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.Checkpoints, "save", full)
            with pytest.raises(TheodoliteError, match=r"No worker is left: .*No space left on device"):
                run_with(plan, tmp_path / "out", LocalPool(2))
        assert_same_numbers(run_with(plan, tmp_path / "out", LocalPool(2), resume=True), local)

    def test_a_folder_that_workers_do_not_see(
        self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "FILE_TIMEOUT", 0.2)
        (tmp_path / "theirs").mkdir()
        pool = elsewhere(LocalPool(2), tmp_path / "theirs")
        with pytest.raises(
            InputError, match=r"does not see what this machine writes to .*, so the folder is a different one"
        ):
            run_with(plan, tmp_path / "out", pool)
        assert [path.name for path in tmp_path.iterdir()] == ["theirs"]  # no file is left on this machine
        assert not list((tmp_path / "theirs").iterdir())  # nor on the other

    def test_a_file_that_is_seen_late(self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As with NFS, or when a worker starts before the folder is mounted."""
        wait = time.sleep

        def shown(seconds: float) -> None:
            wait(0.01)
            probe.touch()

        probe = tmp_path / "probe"
        monkeypatch.setattr(time, "sleep", shown)
        assert worker.Worker().inspect(probe, tmp_path, 600.0).sees_output

    def test_a_folder_that_workers_cannot_write(self, plan: Plan, tmp_path: Path) -> None:
        pool = elsewhere(LocalPool(1), Path("/nowhere"))
        with pytest.raises(
            InputError, match=r"^--out: .* cannot write to /nowhere .*must be shared by all machines"
        ):
            run_with(plan, tmp_path / "out", pool)
        assert not list(tmp_path.iterdir())

    @pytest.mark.slow
    def test_a_replacement_worker_that_does_not_see_the_folder(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A worker that replaces a dead one, on another machine: the others continue, and it leaves no file."""
        monkeypatch.setattr(engine, "FILE_TIMEOUT", 0.1)
        (tmp_path / "theirs").mkdir()

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "before" if (name, method) == ("w2", "fold") else None

        pool, listener = (
            elsewhere(LocalPool(2, fate=fate), tmp_path / "theirs", lambda name: "+" in name),
            RecordingListener(),
        )
        assert_same_numbers(run_with(plan, tmp_path / "out", pool, listener=listener), local)
        assert any("does not see what this machine writes" in line for line in listener.warned)
        assert not list((tmp_path / "theirs").iterdir())
        assert not list(tmp_path.glob(".*.part"))

    def test_other_versions(self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = engine.versions()
        monkeypatch.setattr(engine, "versions", lambda: mine | {"torch": "1.0"})
        with pytest.raises(InputError, match=r"has other versions than this machine \(torch 2.* instead of 1.0\)"):
            run_with(plan, tmp_path / "out", LocalPool(1))
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_survey_of_a_cluster_merges_with_a_local_one(plan: Plan, local: Any, tmp_path: Path) -> None:
    run_with(replace(plan, shards=list(plan.shards)[::2]), tmp_path / "even", LocalPool(2))
    run(replace(plan, shards=list(plan.shards)[1::2], pilot_from=tmp_path / "even"), out=tmp_path / "odd")
    merged = merge([tmp_path / "even", tmp_path / "odd"])
    merged.state.shards.sort()
    assert_same_numbers(merged, local)
