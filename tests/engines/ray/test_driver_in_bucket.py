"""Workers that save to object storage: every shard is counted once, although objects cannot be renamed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.engines.ray.comparison import SHARD_CHARS, assert_same_bits, assert_same_numbers, make_plan
from tests.engines.ray.local_pool import DriverKilledError, Fate, LocalPool
from tests.object_store import s3

from theodolite.engines.engine import Plan
from theodolite.engines.progress import Listener
from theodolite.engines.ray import merge_states
from theodolite.engines.ray.engine import RayEngine
from theodolite.errors import InputError, TheodoliteError
from theodolite.state import checkpoints
from theodolite.state.checkpoints import MANIFEST, BucketRotation
from theodolite.state.worker_states import MARK, WorkerStates
from theodolite.storage import lock
from theodolite.storage.bucket import Bucket
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.folder import open_survey
from theodolite.surveys.run import run

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


class RecordingListener(Listener):
    def __init__(self, shards: int = 10**6) -> None:
        self.warned: list[str] = []
        self.left = shards

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def progress(self, progress: Any) -> None:
        self.left -= 1

    def stop(self) -> bool:
        return self.left <= 0


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    monkeypatch.setattr(lock, "STALE_SECONDS", 0.2)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.0)


@pytest.fixture
def plan(small_model: Any) -> Plan:
    return make_plan(small_model("bert"))


@pytest.fixture(scope="module")
def local(one_thread: None, small_model: Any) -> Any:
    """Give the survey of the same plan by the local engine, to be read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
        return run(make_plan(small_model("bert")))


@pytest.fixture
def out() -> Bucket:
    return Bucket(f"memory://{uuid4().hex}/survey")


def run_with(plan: Plan, out: Bucket, pool: LocalPool, **options: Any) -> Any:
    with RayEngine(out, pool) as engine:
        return run(plan, out=out, engine=engine, **({"checkpoint_every": 0.0} | options))


def once(when: Callable[[str, tuple[Any, ...]], bool], what: str) -> Fate:
    """Let one worker, or the driver, die at the first call for which `when` is true."""
    done = False

    def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
        nonlocal done
        if done or not when(method, arguments):
            return None
        done = True
        return what

    return fate


def _kill(place: Bucket) -> None:
    raise DriverKilledError


def at_shard(index: int, what: str) -> Fate:
    return once(lambda method, arguments: method == "fold" and arguments[0] == index, what)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with s3() as address:
        yield address


class TestOnS3:
    def test_one_worker_gives_the_bits_of_the_local_engine(self, plan: Plan, local: Any, store: str) -> None:
        out = Bucket(f"{store}/one/survey")
        survey = run_with(plan, out, LocalPool(1))
        assert_same_bits(survey, local)
        assert_same_bits(open_survey(out), local)
        assert not {"workers", "checkpoints", "unfinished.json", ".lock"} & {path.name for path in out.iterdir()}

    @pytest.mark.slow
    def test_workers_and_the_driver_die(
        self, plan: Plan, local: Any, store: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(merge_states, "FAN_IN", 2)
        out, listener = Bucket(f"{store}/dying/survey"), RecordingListener()
        with pytest.raises(DriverKilledError):
            run_with(plan, out, LocalPool(3, fate=at_shard(4, "driver")))
        survey = run_with(plan, out, LocalPool(3, fate=at_shard(7, "after")), resume=True, listener=listener)
        assert "a worker was lost (the machine is gone)" in listener.warned[0]
        assert_same_numbers(survey, local)


class TestDying:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(4))
    def test_workers_die_whenever(self, plan: Plan, local: Any, out: Bucket, seed: int) -> None:
        rng, left = random.Random(seed), 5

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal left
            if method in ("inspect", "load", "pilot") or not left or rng.random() > 0.3:
                return None
            left -= 1
            return rng.choice(["before", "after"])

        survey = run_with(plan, out, LocalPool(3, fate=fate, seed=seed))
        assert survey.facts["engine"]["workers_lost"] == 5 - left > 0
        assert_same_numbers(survey, local)

    def test_a_worker_believed_dead_that_still_saves_changes_nothing(
        self, plan: Plan, local: Any, out: Bucket
    ) -> None:
        """It folds every shard that is assigned to others, and saves each time: twice as often as they do."""
        pool, saves, middle = LocalPool(2), 0, len(plan.shards) // 2

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal saves
            for zombie in pool.dead.values():
                if method == "fold":
                    zombie.call("fold", *arguments)
                    saves += 1
                zombie.call("save")
            return "after" if method == "fold" and arguments[0] == middle and not pool.dead else None

        pool.fate = fate
        survey = run_with(plan, out, pool)
        assert len(pool.dead) == 1
        assert saves > 2  # more than are kept: had it deleted its oldest, its replacement would lack them
        assert_same_numbers(survey, local)

    @pytest.mark.parametrize("cut", [MANIFEST, "state.safetensors"])
    @pytest.mark.slow
    def test_a_worker_that_dies_during_an_upload(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch, cut: str
    ) -> None:
        """Some or all files are uploaded, but the manifest is not: the shard is repeated."""
        put, pool, dying = Bucket.put, LocalPool(2), False

        def stopping(self: Bucket, file: Path) -> None:
            if not (dying and file.name in (cut, MANIFEST)):
                put(self, file)

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal dying
            dying = method == "fold" and arguments[0] == 5 and not pool.dead
            return "after" if dying else None

        pool.fate = fate
        monkeypatch.setattr(Bucket, "put", stopping)
        survey = run_with(plan, out, pool)
        assert [shard for _, shard in pool.shards].count(5) == 2
        assert_same_numbers(survey, local)

    def test_a_store_that_does_not_answer_is_reported_and_nothing_is_lost(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put, left, listener = Bucket.put, 4, RecordingListener()

        def failing(self: Bucket, file: Path) -> None:
            nonlocal left
            if file.name == "state.safetensors" and "workers" in self.url and left:
                left -= 1
                raise TheodoliteError(f"{self} cannot be written: TimeoutError: nobody answers.")
            put(self, file)

        monkeypatch.setattr(Bucket, "put", failing)
        survey = run_with(plan, out, LocalPool(2), listener=listener)
        assert "nobody answers. The sums stay in memory; saving will be tried again" in listener.warned[0]
        assert_same_numbers(survey, local)


class TestResume:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(3))
    def test_the_driver_dies_repeatedly(self, plan: Plan, local: Any, out: Bucket, seed: int) -> None:
        rng = random.Random(seed)
        for after in (1, 3, 4):
            count = 0

            def fate(name: str, method: str, arguments: tuple[Any, ...], after: int = after) -> str | None:
                nonlocal count
                count += method in ("fold", "save")
                return "driver" if count > after else None

            with pytest.raises(DriverKilledError):
                run_with(plan, out, LocalPool(rng.choice([1, 2, 3]), fate=fate, seed=seed), resume=True)
        pool = LocalPool(2)
        survey = run_with(plan, out, pool, resume=True)
        assert len(pool.shards) < len(plan.shards)  # what was saved is not folded again
        assert_same_numbers(survey, local)
        assert not (out / "workers").below()

    @pytest.mark.slow
    def test_workers_of_a_dead_driver_still_save(self, plan: Plan, local: Any, out: Bucket) -> None:
        """The driver is dead, its workers do not know it yet, and a second driver is running."""
        first = LocalPool(2, fate=at_shard(5, "driver"))
        engine = RayEngine(out, first)
        with pytest.raises(DriverKilledError):
            run(plan, out=out, engine=engine.__enter__(), checkpoint_every=0.0)
        zombies = list(first.actors.values())

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            for zombie in zombies if method == "fold" else []:
                zombie.call("fold", *arguments)
            return None

        survey = run_with(plan, out, LocalPool(2, fate=fate), resume=True)
        assert_same_numbers(survey, local)

    @pytest.mark.slow
    def test_killed_while_it_renames_a_folder(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both names count then, and contain the same shards: one of them is kept."""
        with pytest.raises(DriverKilledError):
            run_with(plan, out, LocalPool(2, fate=at_shard(6, "driver")))
        unlink = Bucket.unlink

        def killed(self: Bucket, missing_ok: bool = False) -> None:
            if self.name == MARK:
                raise DriverKilledError
            unlink(self, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Bucket, "unlink", killed)
            with pytest.raises(DriverKilledError):
                run_with(plan, out, LocalPool(2), resume=True)
        assert len(WorkerStates(out).names()) == 3
        assert_same_numbers(run_with(plan, out, LocalPool(2), resume=True), local)

    def test_the_local_engine_resumes_a_run_of_a_cluster(self, plan: Plan, local: Any, out: Bucket) -> None:
        with pytest.raises(DriverKilledError):
            run_with(plan, out, LocalPool(2, fate=at_shard(6, "driver")))
        assert_same_numbers(run(plan, out=out, resume=True), local)

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["ray", "local"])
    @pytest.mark.parametrize("killed", [False, True])
    def test_a_cluster_resumes_a_local_run(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch, killed: bool, engine: str
    ) -> None:
        """Killed after copying the checkpoint and before deleting it, it leaves both, of which one counts."""
        per_shard = [len(plan.source.prepare(documents)) for _, documents in plan.read(plan.shards)]
        with pytest.raises(TheodoliteError, match="Interrupted after"):
            run(plan, out=out, listener=RecordingListener(sum(per_shard[:3])))
        if killed:
            with monkeypatch.context() as patch:
                patch.setattr(Bucket, "rmtree", _kill)
                with pytest.raises(DriverKilledError):
                    run_with(plan, out, LocalPool(2), resume=True)
            assert WorkerStates(out).names()
            assert (out / "checkpoints").is_dir()
        if engine == "local":
            assert_same_numbers(run(plan, out=out, resume=True), local)
            return
        pool = LocalPool(2)
        survey = run_with(plan, out, pool, resume=True)
        assert sorted(shard for _, shard in pool.shards) == list(plan.shards)[3:]
        assert_same_numbers(survey, local)

    def test_overwritten_midway_nothing_of_the_old_run_counts(self, plan: Plan, local: Any, out: Bucket) -> None:
        with pytest.raises(DriverKilledError):
            run_with(plan, out, LocalPool(2, fate=at_shard(6, "driver")))
        with pytest.raises(InputError, match="--resume to continue it or --overwrite to replace it"):
            run_with(plan, out, LocalPool(2))
        pool = LocalPool(2)
        survey = run_with(plan, out, pool, overwrite=True)
        assert sorted(shard for _, shard in pool.shards) == list(plan.shards)
        assert_same_numbers(survey, local)

    def test_shards_of_a_damaged_save_are_repeated(self, plan: Plan, local: Any, out: Bucket) -> None:
        with pytest.raises(DriverKilledError):
            run_with(plan, out, LocalPool(1, fate=at_shard(6, "driver")))
        (name,) = WorkerStates(out).names()
        for save in BucketRotation(out / "workers" / name / "checkpoints").names():
            damaged = Bucket(save) / "sample.safetensors"
            damaged._store.pipe_file(damaged._key, damaged.read_bytes()[:-1] + b"?")
        with pytest.raises(
            TheodoliteError, match=r"cannot be read back\. Run the same command with --resume to fold them again"
        ):
            run_with(plan, out, LocalPool(1), resume=True)
        assert_same_numbers(run_with(plan, out, LocalPool(1), resume=True), local)


def test_workers_that_cannot_reach_the_store(plan: Plan, out: Bucket) -> None:
    pool = LocalPool(1)
    call = pool.call

    def call_elsewhere(name: str, method: str, *arguments: Any) -> None:
        probe = Bucket("gs://bucket/probe")
        call(name, method, *((probe, *arguments[1:]) if method == "inspect" else arguments))

    pool.call = call_elsewhere  # type: ignore[method-assign]
    with pytest.raises(TheodoliteError, match=r"requires a package that is not installed: pip install gcsfs"):
        run_with(plan, out, pool)
    assert not (out / "unfinished.json").is_file()


def test_old_saves_are_deleted_as_it_goes(plan: Plan, out: Bucket) -> None:
    """Otherwise the bucket would grow with every save."""
    most = 0

    class Watching(RecordingListener):
        def progress(self, progress: Any) -> None:
            nonlocal most
            most = max(most, sum(name.endswith(MANIFEST) for name in (out / "workers").below()))

    run_with(plan, out, LocalPool(2, fate=at_shard(5, "after")), listener=Watching())
    assert len(plan.shards) > 8
    assert (
        most <= 2 * 3 + 2
    )  # of each worker two kept and one to delete, and those that the replacement started with
