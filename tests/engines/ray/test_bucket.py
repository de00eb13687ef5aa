"""A cluster that saves to object storage: every shard is counted once, though nothing there can be renamed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.engines.ray.crew import DriverKilledError, Fate, HereCrew
from tests.engines.ray.surveyed import SHARD_CHARS, assert_same_bits, assert_same_numbers, planned
from tests.object_store import s3

from theodolite.errors import InputError, TheodoliteError
from theodolite.surveys import checkpoints, lease
from theodolite.surveys import text as text_surveys
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.cluster import merging
from theodolite.surveys.cluster.cluster import Cluster
from theodolite.surveys.folder import open_survey
from theodolite.surveys.listener import Listener
from theodolite.surveys.partials import MARK, Partials
from theodolite.surveys.plan import Plan
from theodolite.surveys.run import run
from theodolite.surveys.shelves import MANIFEST, BucketShelf


class Ear(Listener):
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
    monkeypatch.setattr(lease, "SILENCE", 0.2)
    monkeypatch.setattr(lease, "SETTLING", 0.0)


@pytest.fixture
def plan(small_model: Any) -> Plan:
    return planned(small_model("bert"))


@pytest.fixture
def local(plan: Plan) -> Any:
    return run(plan)


@pytest.fixture
def out() -> Bucket:
    return Bucket(f"memory://{uuid4().hex}/survey")


def crewed(plan: Plan, out: Bucket, crew: HereCrew, **options: Any) -> Any:
    with Cluster(out, crew) as cluster:
        return run(plan, out=out, engine=cluster, **({"checkpoint_every": 0.0} | options))


def once(when: Callable[[str, tuple[Any, ...]], bool], what: str) -> Fate:
    """Let one worker, or the driver, die at the first question that is such."""
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
        made = crewed(plan, out, HereCrew(1))
        assert_same_bits(made, local)
        assert_same_bits(open_survey(out), local)
        assert not {"workers", "checkpoints", "unfinished.json", ".lock"} & {path.name for path in out.iterdir()}

    def test_workers_and_the_driver_die(
        self, plan: Plan, local: Any, store: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(merging, "WIDE", 2)
        out, ear = Bucket(f"{store}/dying/survey"), Ear()
        with pytest.raises(DriverKilledError):
            crewed(plan, out, HereCrew(3, fate=at_shard(4, "driver")))
        made = crewed(plan, out, HereCrew(3, fate=at_shard(7, "after")), resume=True, listener=ear)
        assert "a worker was lost (the machine is gone)" in ear.warned[0]
        assert_same_numbers(made, local)


class TestDying:
    @pytest.mark.parametrize("seed", range(4))
    def test_workers_die_whenever(self, plan: Plan, local: Any, out: Bucket, seed: int) -> None:
        rng, left = random.Random(seed), 5

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal left
            if method in ("hello", "load", "pilot") or not left or rng.random() > 0.3:
                return None
            left -= 1
            return rng.choice(["before", "after"])

        made = crewed(plan, out, HereCrew(3, fate=fate, seed=seed))
        assert made.facts["engine"]["workers_lost"] == 5 - left > 0
        assert_same_numbers(made, local)

    def test_one_taken_for_dead_that_goes_on_saving_changes_nothing(
        self, plan: Plan, local: Any, out: Bucket
    ) -> None:
        """It folds every shard that others are given, and saves each time: twice as often as those who live."""
        crew, saves, middle = HereCrew(2), 0, len(plan.shards) // 2

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal saves
            for zombie in crew.dead.values():
                if method == "fold":
                    zombie.call("fold", *arguments)
                    saves += 1
                zombie.call("save")
            return "after" if method == "fold" and arguments[0] == middle and not crew.dead else None

        crew.fate = fate
        made = crewed(plan, out, crew)
        assert len(crew.dead) == 1
        assert saves > 2  # more than are kept: one that deleted its oldest would have deleted what its heir needs
        assert_same_numbers(made, local)

    @pytest.mark.parametrize("cut", [MANIFEST, "state.safetensors"])
    def test_one_that_dies_while_it_uploads(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch, cut: str
    ) -> None:
        """The files are there, or some, and the manifest is not: the shard is folded again."""
        put, crew, dying = Bucket.put, HereCrew(2), False

        def stopping(self: Bucket, file: Path) -> None:
            if not (dying and file.name in (cut, MANIFEST)):
                put(self, file)

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal dying
            dying = method == "fold" and arguments[0] == 5 and not crew.dead
            return "after" if dying else None

        crew.fate = fate
        monkeypatch.setattr(Bucket, "put", stopping)
        made = crewed(plan, out, crew)
        assert [shard for _, shard in crew.shards].count(5) == 2
        assert_same_numbers(made, local)

    def test_a_store_that_does_not_answer_is_told_and_nothing_is_lost(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put, left, ear = Bucket.put, 4, Ear()

        def failing(self: Bucket, file: Path) -> None:
            nonlocal left
            if file.name == "state.safetensors" and "workers" in self.url and left:
                left -= 1
                raise TheodoliteError(f"{self} cannot be written: TimeoutError: nobody answers.")
            put(self, file)

        monkeypatch.setattr(Bucket, "put", failing)
        made = crewed(plan, out, HereCrew(2), listener=ear)
        assert "nobody answers. The sums are kept in memory, and saving is tried again" in ear.warned[0]
        assert_same_numbers(made, local)


class TestTakenUp:
    @pytest.mark.parametrize("seed", range(3))
    def test_the_driver_dies_again_and_again(self, plan: Plan, local: Any, out: Bucket, seed: int) -> None:
        rng = random.Random(seed)
        for after in (1, 3, 4):
            count = 0

            def fate(name: str, method: str, arguments: tuple[Any, ...], after: int = after) -> str | None:
                nonlocal count
                count += method in ("fold", "save")
                return "driver" if count > after else None

            with pytest.raises(DriverKilledError):
                crewed(plan, out, HereCrew(rng.choice([1, 2, 3]), fate=fate, seed=seed), resume=True)
        crew = HereCrew(2)
        made = crewed(plan, out, crew, resume=True)
        assert len(crew.shards) < len(plan.shards)  # what was saved is not folded again
        assert_same_numbers(made, local)
        assert not (out / "workers").below()

    def test_the_old_crew_lives_on_and_saves(self, plan: Plan, local: Any, out: Bucket) -> None:
        """The driver is gone and its workers do not know yet; a second driver is at work."""
        first = HereCrew(2, fate=at_shard(5, "driver"))
        cluster = Cluster(out, first)
        with pytest.raises(DriverKilledError):
            run(plan, out=out, engine=cluster.__enter__(), checkpoint_every=0.0)
        zombies = list(first.actors.values())

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            for zombie in zombies if method == "fold" else []:
                zombie.call("fold", *arguments)
            return None

        made = crewed(plan, out, HereCrew(2, fate=fate), resume=True)
        assert_same_numbers(made, local)

    def test_killed_while_it_takes_a_folder_from_its_worker(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both names count then, and hold the same shards: one of them is left."""
        with pytest.raises(DriverKilledError):
            crewed(plan, out, HereCrew(2, fate=at_shard(6, "driver")))
        unlink = Bucket.unlink

        def killed(self: Bucket, missing_ok: bool = False) -> None:
            if self.name == MARK:
                raise DriverKilledError
            unlink(self, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Bucket, "unlink", killed)
            with pytest.raises(DriverKilledError):
                crewed(plan, out, HereCrew(2), resume=True)
        assert len(Partials(out).names()) == 3
        assert_same_numbers(crewed(plan, out, HereCrew(2), resume=True), local)

    def test_the_local_engine_goes_on_with_what_a_cluster_began(self, plan: Plan, local: Any, out: Bucket) -> None:
        with pytest.raises(DriverKilledError):
            crewed(plan, out, HereCrew(2, fate=at_shard(6, "driver")))
        assert_same_numbers(run(plan, out=out, resume=True), local)

    @pytest.mark.parametrize("engine", ["ray", "local"])
    @pytest.mark.parametrize("killed", [False, True])
    def test_a_cluster_goes_on_with_what_the_local_engine_left(
        self, plan: Plan, local: Any, out: Bucket, monkeypatch: pytest.MonkeyPatch, killed: bool, engine: str
    ) -> None:
        """Killed when it has copied the checkpoint and not yet deleted it, it leaves both, and one counts."""
        per_shard = [len(plan.source.prepare(documents)) for _, documents in plan.read(plan.shards)]
        with pytest.raises(TheodoliteError, match="Interrupted after"):
            run(plan, out=out, listener=Ear(sum(per_shard[:3])))
        if killed:
            with monkeypatch.context() as patch:
                patch.setattr(Bucket, "rmtree", _kill)
                with pytest.raises(DriverKilledError):
                    crewed(plan, out, HereCrew(2), resume=True)
            assert Partials(out).names()
            assert (out / "checkpoints").is_dir()
        if engine == "local":
            assert_same_numbers(run(plan, out=out, resume=True), local)
            return
        crew = HereCrew(2)
        made = crewed(plan, out, crew, resume=True)
        assert sorted(shard for _, shard in crew.shards) == list(plan.shards)[3:]
        assert_same_numbers(made, local)

    def test_overwritten_midway_nothing_of_the_old_run_counts(self, plan: Plan, local: Any, out: Bucket) -> None:
        with pytest.raises(DriverKilledError):
            crewed(plan, out, HereCrew(2, fate=at_shard(6, "driver")))
        with pytest.raises(InputError, match="--resume to go on with it, --overwrite to replace it"):
            crewed(plan, out, HereCrew(2))
        crew = HereCrew(2)
        made = crewed(plan, out, crew, overwrite=True)
        assert sorted(shard for _, shard in crew.shards) == list(plan.shards)
        assert_same_numbers(made, local)

    def test_a_save_that_was_damaged_is_folded_again(self, plan: Plan, local: Any, out: Bucket) -> None:
        with pytest.raises(DriverKilledError):
            crewed(plan, out, HereCrew(1, fate=at_shard(6, "driver")))
        (name,) = Partials(out).names()
        for save in BucketShelf(out / "workers" / name / "checkpoints").saves():
            damaged = Bucket(save) / "sample.safetensors"
            damaged._store.pipe_file(damaged._key, damaged.read_bytes()[:-1] + b"?")
        with pytest.raises(TheodoliteError, match=r"cannot be read again; .* --resume folds them once more"):
            crewed(plan, out, HereCrew(1), resume=True)
        assert_same_numbers(crewed(plan, out, HereCrew(1), resume=True), local)


def test_workers_that_cannot_reach_the_store(plan: Plan, out: Bucket) -> None:
    crew = HereCrew(1)
    ask = crew.ask

    def there(name: str, method: str, *arguments: Any) -> None:
        probe = Bucket("gs://bucket/probe")
        ask(name, method, *((probe, *arguments[1:]) if method == "hello" else arguments))

    crew.ask = there  # type: ignore[method-assign]
    with pytest.raises(TheodoliteError, match=r"needs a package that is missing: pip install gcsfs"):
        crewed(plan, out, crew)
    assert not (out / "unfinished.json").is_file()


def test_old_saves_are_deleted_as_it_goes(plan: Plan, out: Bucket) -> None:
    """A bucket that grew with every save would cost what the whole run writes."""
    most = 0

    class Watching(Ear):
        def progress(self, progress: Any) -> None:
            nonlocal most
            most = max(most, sum(name.endswith(MANIFEST) for name in (out / "workers").below()))

    crewed(plan, out, HereCrew(2, fate=at_shard(5, "after")), listener=Watching())
    assert len(plan.shards) > 8
    assert most <= 2 * 3 + 2  # two kept and one to be forgotten of each worker, and what the heir began with
