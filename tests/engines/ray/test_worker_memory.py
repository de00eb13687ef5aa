"""The driver chooses the units that have a vector so that the sums fit in the memory of every worker."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engines.ray.comparison import SHARD_CHARS, assert_same_numbers, make_plan
from tests.engines.ray.local_pool import DriverKilledError, LocalPool
from tests.engines.ray.nodes import RecordingListener

from theodolite.engines.ray.engine import RayEngine
from theodolite.environment import MEMORY_SHARE
from theodolite.errors import InputError
from theodolite.state import checkpoints
from theodolite.statistics.rare_units import choose_units
from theodolite.surveys import text_survey
from theodolite.surveys.run import run

pytestmark = pytest.mark.usefixtures("one_thread")
PLENTY = 2**62


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many shards, and sample few rare units, so that a small corpus has units without a vector."""
    monkeypatch.setattr(text_survey, "SHARD_CHARS", SHARD_CHARS)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    monkeypatch.setattr("theodolite.statistics.rare_units.MIN_SAMPLED", 2)
    monkeypatch.setitem(choose_units.__kwdefaults__, "sampled", 10)


@pytest.fixture
def set_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give a function that sets what each of two workers may use on this machine; the driver may use twice it."""

    def set_memory(each: int) -> None:
        free = int(2 * each / MEMORY_SHARE) + 1
        monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free))

    return set_memory


@pytest.fixture(scope="module")
def model(small_model: Any) -> Path:
    return Path(small_model("gpt2"))


@pytest.fixture(scope="module")
def need(model: Path) -> int:
    """Give the bytes for vectors of all units of the corpus."""
    upper_bound = run(make_plan(model)).facts["memory"]["bytes"]
    return int(run(make_plan(model, memory=upper_bound - 1)).facts["memory"]["bytes"])  # units are counted


def run_with(plan: Any, out: Path, pool: LocalPool, **options: Any) -> Any:
    with RayEngine(out, pool) as engine:
        return run(plan, out=out, engine=engine, checkpoint_every=0.0, **options)


def test_units_are_chosen_to_fit_in_a_worker(
    model: Path, need: int, tmp_path: Path, set_memory: Callable[[int], None]
) -> None:
    set_memory(need - 1)
    deaths, listener = iter([None, "after", "before"]), RecordingListener()
    pool = LocalPool(2, fate=lambda name, method, _: next(deaths, None) if method == "fold" else None)
    made = run_with(make_plan(model), tmp_path / "out", pool, listener=listener)
    assert made.facts["engine"]["workers_lost"] == 2
    chosen = made.facts["settings"]["min_count"]
    assert chosen > 1
    assert made.facts["memory"]["bytes"] <= made.facts["engine"]["memory_per_worker"] < need
    words = f"--min-count {chosen}, chosen to fit in the memory of each worker on {platform.node()}: "
    assert listener.warned[0].startswith(words)
    assert (made.layers["v_within_estimated_share"] > 0).all()
    assert_same_numbers(made, run(make_plan(model, min_count=chosen)))


def test_all_units_have_a_vector_if_they_fit(
    model: Path, need: int, tmp_path: Path, set_memory: Callable[[int], None]
) -> None:
    set_memory(need)
    made = run_with(make_plan(model), tmp_path / "out", LocalPool(2))
    assert made.facts["settings"]["min_count"] == 1
    assert made.tokens["m"].notna().all()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "local"])
def test_a_resumed_run_keeps_its_units(
    model: Path, need: int, tmp_path: Path, set_memory: Callable[[int], None], engine: str
) -> None:
    """The memory that is free when a run is resumed changes nothing."""
    out, calls = tmp_path / "out", iter([None, None, "driver"])
    set_memory(need - 1)
    pool = LocalPool(2, fate=lambda name, method, _: next(calls) if method == "fold" else None)
    with pytest.raises(DriverKilledError):
        run_with(make_plan(model), out, pool)
    set_memory(PLENTY)
    if engine == "ray":
        made = run_with(make_plan(model), out, LocalPool(2), resume=True)
    else:
        made = run(make_plan(model), out=out, resume=True)
    chosen = made.facts["settings"]["min_count"]
    assert chosen > 1
    assert_same_numbers(made, run(make_plan(model, min_count=chosen)))


@pytest.mark.slow
def test_a_resumed_run_that_does_not_fit_any_more(
    model: Path, need: int, tmp_path: Path, set_memory: Callable[[int], None]
) -> None:
    out, calls = tmp_path / "out", iter([None, None, "driver"])
    pool = LocalPool(2, fate=lambda name, method, _: next(calls) if method == "fold" else None)
    set_memory(PLENTY)
    with pytest.raises(DriverKilledError):
        run_with(make_plan(model), out, pool)
    set_memory(need - 1)
    with pytest.raises(InputError, match=r"may be used by each worker on .* use fewer --workers"):
        run_with(make_plan(model), out, LocalPool(2), resume=True)
    made = run_with(make_plan(model), out, LocalPool(1), resume=True)
    assert made.facts["settings"]["min_count"] == 1


@pytest.mark.parametrize("given", [{"memory": PLENTY}, {"min_count": 1}])
def test_what_was_given_is_not_changed(
    model: Path, need: int, tmp_path: Path, set_memory: Callable[[int], None], given: dict[str, int]
) -> None:
    set_memory(need - 1)
    words = (
        rf"by each worker on {platform.node()} \(its workers: 2\)\. .*, or use fewer --workers or machines with "
        r"more memory\. If --min-count or --memory was given, omit it: rare units"
    )
    with pytest.raises(InputError, match=words):
        run_with(make_plan(model, **given), tmp_path / "out", LocalPool(2))
    assert not (tmp_path / "out").exists()


def test_too_little_memory_for_any_units(model: Path, tmp_path: Path, set_memory: Callable[[int], None]) -> None:
    set_memory(1000)
    words = (
        r"for 2 layers and \d+ units even with --min-count \d+, but only 1\.0 kB may be used by each worker on .* "
        r"\(--layers\), choose coarser --units.*, or use fewer --workers or machines with more memory\.$"
    )
    with pytest.raises(InputError, match=words):
        run_with(make_plan(model), tmp_path / "out", LocalPool(2))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_words_are_counted_before_a_worker_is_refused(model: Path, tmp_path: Path) -> None:
    plan = make_plan(model, units="word")
    loose = replace(plan, types_bound=10**10, budget=PLENTY)  # fits here, and would not in any worker
    made = run_with(loose, tmp_path / "out", LocalPool(2))
    assert made.facts["memory"]["types"] == made.facts["counts"]["types"]
    assert_same_numbers(made, run(plan, out=tmp_path / "local"))
