"""Every shard is counted once, whoever dies when; tested with a crew in this process, which needs no cluster."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.devices import DEVICES
from tests.engines.ray.crew import DriverKilledError, Fate, HereCrew
from tests.engines.ray.poisoned import POISON, VENOM, poisoned
from tests.engines.ray.surveyed import DOCUMENTS, SHARD_CHARS, assert_same_bits, assert_same_numbers, planned

from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.text.source import TextSource
from theodolite.surveys import checkpoints
from theodolite.surveys import text as text_surveys
from theodolite.surveys.cluster import cluster as clusters
from theodolite.surveys.cluster import drive as drives
from theodolite.surveys.cluster import merging
from theodolite.surveys.cluster import worker as workers
from theodolite.surveys.cluster.cluster import Cluster
from theodolite.surveys.listener import Listener
from theodolite.surveys.merge import merge
from theodolite.surveys.plan import Plan
from theodolite.surveys.residence import moved
from theodolite.surveys.run import run


class Ear(Listener):
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


@pytest.fixture(autouse=True, params=[False, True], ids=["one at a time", "the next prepared meanwhile"])
def promising(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Have workers prepare ahead, as those do whose GPUs would wait, unless words get their codes in order."""
    monkeypatch.setattr(
        drives, "waits_for_text", lambda work, crew: request.param and not work.plan.source.units.open
    )
    return bool(request.param)


@pytest.fixture
def plan(small_model: Any) -> Plan:
    return planned(small_model("bert"))


@pytest.fixture
def local(plan: Plan, tmp_path: Path) -> Any:
    return run(plan, out=tmp_path / "local")


def crewed(plan: Plan, out: Path, crew: HereCrew, **options: Any) -> Any:
    with Cluster(out, crew) as cluster:
        return run(plan, out=out, engine=cluster, **options)


def every(number: int) -> Callable[[], bool]:
    """Say yes every so many times."""
    count = 0

    def due() -> bool:
        nonlocal count
        count += 1
        return count % number == 0

    return due


def elsewhere(crew: HereCrew, folder: Path, who: Callable[[str], bool] = lambda name: True) -> HereCrew:
    """Have these workers find another folder where the survey will be, as on machines with disks of their own."""
    ask = crew.ask

    def there(name: str, method: str, *arguments: Any) -> None:
        if method == "hello" and who(name):
            arguments = (folder / arguments[0].name, *arguments[1:])
        ask(name, method, *arguments)

    crew.ask = there  # type: ignore[method-assign]
    return crew


class TestUndisturbed:
    def test_one_worker_gives_the_bits_of_the_local_engine(self, plan: Plan, local: Any, tmp_path: Path) -> None:
        made = crewed(plan, tmp_path / "one", HereCrew(1))
        assert_same_bits(made, local)
        for table in ("layers", "tokens", "units"):
            assert getattr(made, table).equals(getattr(local, table))
        assert {path.name for path in (tmp_path / "one").iterdir()} == {
            path.name for path in (tmp_path / "local").iterdir()
        }

    @pytest.mark.parametrize(("family", "kind"), [("bert", "id"), ("gpt2", "word")])
    def test_three_workers_give_the_numbers(
        self, small_model: Any, tmp_path: Path, family: str, kind: str
    ) -> None:
        plan = planned(small_model(family), units=kind)
        alone, crew = run(plan, out=tmp_path / "local"), HereCrew(3, seed=5)
        ear = Ear()
        made = crewed(planned(small_model(family), units=kind), tmp_path / "three", crew, listener=ear)
        assert_same_numbers(made, alone)
        assert {name for name, _ in crew.shards} == {"w1", "w2", "w3"}
        assert sorted(shard for _, shard in crew.shards) == list(plan.shards)
        assert ear.shares == sorted(ear.shares)
        assert ear.shares[-1] == pytest.approx(1)
        assert made.facts["engine"]["workers"] == 3

    @pytest.mark.parametrize("device", DEVICES)
    def test_workers_that_keep_their_sums_on_a_device_give_the_bits_of_one_process(
        self, small_model: Any, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On the processor only because the test says so."""
        monkeypatch.setattr(text_surveys, "_resident", lambda kind: True)
        monkeypatch.setattr(text_surveys, "GPU_SHARD_CHARS", SHARD_CHARS)
        kept: list[str] = []
        monkeypatch.setattr(workers, "moved", lambda state, where: kept.append(where) or moved(state, where))
        alone = run(planned(small_model("bert"), device=device), out=tmp_path / "local")
        made = crewed(planned(small_model("bert"), device=device), tmp_path / "one", HereCrew(1))
        assert_same_bits(made, alone)
        assert [where.partition(":")[0] for where in kept] == [device]

    def test_a_shard_is_sent_and_prepared_once(
        self, plan: Plan, local: Any, tmp_path: Path, promising: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        crew, sent, prepared = HereCrew(1), list[int](), list[int]()
        ask, prepare = crew.ask, TextSource.prepare

        def asked(name: str, method: str, *arguments: Any) -> None:
            if method == "fold":
                shard, documents, coming = arguments
                sent.extend([shard] if documents is not None else [])
                sent.extend([coming[0]] if coming is not None else [])
            ask(name, method, *arguments)

        def counted(source: TextSource, documents: Any, only: Any = None) -> Any:
            prepared.append(len(documents))
            return prepare(source, documents, only)

        monkeypatch.setattr(crew, "ask", asked)
        monkeypatch.setattr(TextSource, "prepare", counted)
        made = crewed(plan, tmp_path / "one", crew)
        assert_same_bits(made, local)
        assert sent == list(plan.shards)
        assert len(prepared) == len(plan.shards) + 1  # and the pilot

    def test_what_a_slow_worker_was_promised_goes_to_one_that_is_idle(
        self, plan: Plan, local: Any, tmp_path: Path
    ) -> None:
        class Slow(HereCrew):
            """The first worker answers when nobody else has anything to say."""

            def answers(self, seconds: float) -> list[Any]:
                self.asked.sort(key=lambda asked: (asked[1] == "fold" and asked[0] == "w1", asked[0]))
                return super().answers(seconds)

        crew = Slow(2)
        crew.rng.randrange = lambda count: 0  # type: ignore[method-assign, assignment]
        made = crewed(plan, tmp_path / "two", crew)
        assert_same_numbers(made, local)
        assert [name for name, _ in crew.shards].count("w1") == 1
        assert sorted(shard for _, shard in crew.shards) == list(plan.shards)

    def test_the_merge_is_a_tree(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(merging.merged, "__defaults__", (2,))
        made = crewed(plan, tmp_path / "five", HereCrew(5, seed=2))
        assert_same_numbers(made, local)


class TestDeaths:
    @pytest.mark.parametrize("seed", range(6))
    def test_each_shard_counts_once_whoever_dies_when(
        self, plan: Plan, local: Any, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = random.Random(seed)
        left = 5

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal left
            if method in ("hello", "load", "pilot") or not left or rng.random() > 0.3:
                return None
            left -= 1
            return rng.choice(["before", "after"])

        ear = Ear()
        made = crewed(
            plan, tmp_path / "out", HereCrew(3, fate=fate, seed=seed), listener=ear, checkpoint_every=0.0
        )
        assert left < 5
        assert_same_numbers(made, local)
        assert made.facts["engine"]["workers_lost"] == 5 - left
        assert "a worker was lost (the machine is gone)" in ear.warned[0]

    @pytest.mark.parametrize("seed", range(4))
    def test_what_was_not_saved_is_folded_again(self, plan: Plan, local: Any, tmp_path: Path, seed: int) -> None:
        died = False

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            nonlocal died
            if method == "fold" and arguments[0] == len(plan.shards) // 2 and not died:
                died = True
                return "after"
            return None

        crew = HereCrew(2, fate=fate, seed=seed)
        made = crewed(plan, tmp_path / "out", crew, checkpoint_every=3600.0)
        assert len(crew.shards) > len(plan.shards)  # some were folded twice, and count once
        assert_same_numbers(made, local)

    def test_one_taken_for_dead_that_goes_on_saving_changes_nothing(
        self, plan: Plan, local: Any, tmp_path: Path
    ) -> None:
        """The tempting way, to go on in the same folder, would count its shards twice or lose them."""
        shards = len(plan.shards)
        crew = HereCrew(2)

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            for zombie in crew.dead.values():
                zombie.call("fold", *arguments) if method == "fold" else None
                zombie.call("save")
            return "after" if method == "fold" and arguments[0] == shards // 2 and not crew.dead else None

        crew.fate = fate
        made = crewed(plan, tmp_path / "out", crew, checkpoint_every=0.0)
        assert len(crew.dead) == 1
        assert_same_numbers(made, local)

    def test_a_shard_that_no_worker_survives_is_left_out_and_told(self, plan: Plan, tmp_path: Path) -> None:
        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "before" if method == "fold" and arguments[0] == 2 else None

        ear = Ear()
        made = crewed(plan, tmp_path / "out", HereCrew(2, fate=fate), listener=ear)
        assert [shard.index for shard in made.state.shards] == [index for index in plan.shards if index != 2]
        (lost,) = made.facts["corpus"]["left_out"]["shards"]
        assert lost["shard"] == 2
        assert "3 workers died at it; the last: the machine is gone" in lost["reason"]
        assert made.facts["counts"]["left_out"] == lost["documents"] > 0
        assert "shard 2 whole" in ear.warned[-1]

    def test_workers_that_never_live_end_the_run_in_a_sentence(self, plan: Plan, tmp_path: Path) -> None:
        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "before" if method == "begin" else None

        with pytest.raises(TheodoliteError, match=r"No worker is left: each was lost 5 times .*--resume goes on"):
            crewed(plan, tmp_path / "out", HereCrew(2, fate=fate))


class TestTakenUp:
    @pytest.mark.parametrize("seed", range(4))
    def test_the_driver_dies_again_and_again(self, plan: Plan, local: Any, tmp_path: Path, seed: int) -> None:
        out, rng = tmp_path / "out", random.Random(seed)

        def dying(after: int) -> Fate:
            count = 0

            def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
                nonlocal count
                count += method in ("fold", "save")
                return "driver" if count > after else None

            return fate

        for after in (1, 3, 4):
            crew = HereCrew(rng.choice([1, 2, 3]), fate=dying(after), seed=seed)
            with pytest.raises(DriverKilledError):
                crewed(plan, out, crew, resume=True, checkpoint_every=0.0)
        crew = HereCrew(2)
        made = crewed(plan, out, crew, resume=True, checkpoint_every=0.0)
        assert len(crew.shards) < len(plan.shards)  # what was saved is not folded again
        assert_same_numbers(made, local)
        assert not (out / "workers").exists()

    def test_the_local_engine_goes_on_with_what_a_cluster_began(
        self, plan: Plan, local: Any, tmp_path: Path
    ) -> None:
        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "driver" if method == "fold" and arguments[0] == 6 else None

        out = tmp_path / "out"
        with pytest.raises(DriverKilledError):
            crewed(plan, out, HereCrew(2, fate=fate), checkpoint_every=0.0)
        ear = Ear()
        made = run(plan, out=out, resume=True, listener=ear)
        assert any(said.startswith("taking up after") for said in ear.said)
        assert_same_numbers(made, local)

    @pytest.mark.parametrize("between", [True, False])
    def test_a_cluster_goes_on_with_what_the_local_engine_left_between_shards(
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
            with pytest.raises(InputError, match="begun with --engine local and stopped within a shard; use that"):
                crewed(plan, out, HereCrew(2), resume=True)
            return
        crew = HereCrew(2)
        made = crewed(plan, out, crew, resume=True)
        assert sorted(shard for _, shard in crew.shards) == list(plan.shards)[3:]
        assert_same_numbers(made, local)

    def test_stopped_by_the_user_all_is_saved(self, plan: Plan, local: Any, tmp_path: Path) -> None:
        class Stops(Ear):
            def stop(self) -> bool:
                return len(self.shares) > 2

        out = tmp_path / "out"
        with pytest.raises(TheodoliteError, match=r"Interrupted after [\d,]+ positions, all saved"):
            crewed(plan, out, HereCrew(2), listener=Stops())
        assert_same_numbers(crewed(plan, out, HereCrew(2), resume=True), local)


class TestPoison:
    @pytest.mark.parametrize("poison", [POISON, VENOM])
    @pytest.mark.parametrize("seed", range(2))
    def test_a_document_that_raises_is_left_out_alone_and_told(
        self, small_model: Any, tmp_path: Path, poison: str, seed: int
    ) -> None:
        bad = {40: f"{DOCUMENTS[40]} {poison}", 71: f"{poison} {DOCUMENTS[71]}"}
        documents = [bad.get(number, text) for number, text in enumerate(DOCUMENTS)]
        plan = planned(small_model("bert"), documents)
        plan = replace(plan, remake=partial(poisoned, plan.remake))
        ear = Ear()
        made = crewed(plan, tmp_path / "out", HereCrew(2, seed=seed), listener=ear, checkpoint_every=3600.0)
        told = made.facts["corpus"]["left_out"]["documents"]
        assert [each["document"] for each in told] == [40, 71]
        assert made.facts["counts"]["left_out"] == 2
        reason = (
            "ValueError: cannot read document 40" if poison == POISON else "RuntimeError: the forward pass fails"
        )
        assert told[0]["reason"] == reason
        assert "2 documents were left out: document 40 ('" in ear.warned[-1]
        assert reason in ear.warned[-1]
        # The oracle: the local engine, never shown the two documents, with the same shards and the same pilot.
        read = plan.read

        def without(shards: Any) -> Any:
            for shard, numbered in read(shards):
                yield shard, [each for each in numbered if each[0] not in bad]

        assert_same_numbers(made, run(replace(plan, read=without, pilot_from=tmp_path / "out")))

    def test_what_is_nobodys_fault_is_tried_again_and_then_given_up(self, plan: Plan, tmp_path: Path) -> None:
        ((_, documents),) = plan.read([1])
        remake = partial(broken, plan.remake, documents[0][0], len(documents))
        made = crewed(replace(plan, remake=remake), tmp_path / "out", HereCrew(2))
        (lost,) = made.facts["corpus"]["left_out"]["shards"]
        assert lost["shard"] == 1
        assert lost["reason"] == "RuntimeError: too many at once"


def broken(remake: Callable[[], Any], first: int, count: int) -> Any:
    """Make a source that fails at one shard whole, and at no document of it."""
    source = remake()
    prepare = source.prepare

    def failing(documents: Any) -> Any:
        if len(documents) == count and documents[0][0] == first:
            raise RuntimeError("too many at once")
        return prepare(documents)

    source.prepare = failing
    return source


class TestFaults:
    def test_a_full_disk_is_told_and_nothing_is_lost(
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
        ear = Ear()
        made = crewed(plan, tmp_path / "out", HereCrew(2), listener=ear, checkpoint_every=0.0)
        assert "No space left on device" in ear.warned[0]
        assert "kept in memory, and saving is tried again" in ear.warned[0]
        assert_same_numbers(made, local)

    def test_a_disk_that_stays_full_ends_the_run_in_a_sentence(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: Any, state: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.Checkpoints, "save", full)
            with pytest.raises(TheodoliteError, match=r"No worker is left: .*No space left on device"):
                crewed(plan, tmp_path / "out", HereCrew(2))
        assert_same_numbers(crewed(plan, tmp_path / "out", HereCrew(2), resume=True), local)

    def test_a_folder_that_workers_do_not_see(
        self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clusters, "SEEING", 0.2)
        (tmp_path / "theirs").mkdir()
        crew = elsewhere(HereCrew(2), tmp_path / "theirs")
        with pytest.raises(
            InputError, match=r"does not see what this machine writes to .*, so it is another folder"
        ):
            crewed(plan, tmp_path / "out", crew)
        assert [path.name for path in tmp_path.iterdir()] == ["theirs"]  # nothing is left here
        assert not list((tmp_path / "theirs").iterdir())  # nor there

    def test_a_file_that_is_seen_late(self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As NFS may show it, or a worker that starts before the folder is mounted."""
        wait = time.sleep

        def shown(seconds: float) -> None:
            wait(0.01)
            probe.touch()

        probe = tmp_path / "probe"
        monkeypatch.setattr(time, "sleep", shown)
        assert workers.Worker().hello(probe, tmp_path, 5.0).sees

    def test_a_folder_that_workers_cannot_write(self, plan: Plan, tmp_path: Path) -> None:
        crew = elsewhere(HereCrew(1), Path("/nowhere"))
        with pytest.raises(InputError, match=r"^--out: .* cannot write to /nowhere .*that every machine .* sees"):
            crewed(plan, tmp_path / "out", crew)
        assert not list(tmp_path.iterdir())

    def test_a_worker_that_comes_later_and_does_not_see_it(
        self, plan: Plan, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One in the place of a dead one, on another machine: the others go on, and it leaves nothing."""
        monkeypatch.setattr(clusters, "SEEING", 0.1)
        (tmp_path / "theirs").mkdir()

        def fate(name: str, method: str, arguments: tuple[Any, ...]) -> str | None:
            return "before" if (name, method) == ("w2", "fold") else None

        crew, ear = elsewhere(HereCrew(2, fate=fate), tmp_path / "theirs", lambda name: "+" in name), Ear()
        assert_same_numbers(crewed(plan, tmp_path / "out", crew, listener=ear), local)
        assert any("does not see what this machine writes" in line for line in ear.warned)
        assert not list((tmp_path / "theirs").iterdir())
        assert not list(tmp_path.glob(".*.part"))

    def test_other_versions(self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from theodolite.surveys.cluster import agreement

        mine = agreement.versions()
        monkeypatch.setattr(agreement, "versions", lambda: mine | {"torch": "1.0"})
        with pytest.raises(
            InputError, match=r"has other versions than this machine \(torch 2.* there, 1.0 here\)"
        ):
            crewed(plan, tmp_path / "out", HereCrew(1))
        assert not (tmp_path / "out").exists()

    def test_too_little_memory_for_all_workers_of_a_machine(
        self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from theodolite.surveys.cluster import agreement

        monkeypatch.setattr(agreement, "SHARE", 1e-9)
        with pytest.raises(InputError, match=r"2 workers there need about .* Take fewer --workers"):
            crewed(plan, tmp_path / "out", HereCrew(2))


def test_made_on_a_cluster_it_merges_with_one_made_here(plan: Plan, local: Any, tmp_path: Path) -> None:
    crewed(replace(plan, shards=list(plan.shards)[::2]), tmp_path / "even", HereCrew(2))
    run(replace(plan, shards=list(plan.shards)[1::2], pilot_from=tmp_path / "even"), out=tmp_path / "odd")
    merged = merge([tmp_path / "even", tmp_path / "odd"])
    merged.state.shards.sort()
    assert_same_numbers(merged, local)
