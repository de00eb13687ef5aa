"""Layers measured in parallel, or with their sums on a device, give the same tables as one by one."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.devices import DEVICES
from tests.hard_cases import BOS, hard
from threadpoolctl import threadpool_info

from theodolite.engines import gpu, threads
from theodolite.engines.threads import freeze_objects, run_in_threads
from theodolite.models.layers import Layer
from theodolite.sources.units import Unit, Units
from theodolite.state.state import State
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.moments import UnitSums
from theodolite.storage.checksum import checksum
from theodolite.storage.file_names import SAMPLE, STATE
from theodolite.tables.tables import COPIES, SurveyTables, _workers, make_tables
from theodolite.tables.unit_sets import SET_COLUMNS

CLOSE = 1e-9
"""Relative: float64 sums in another order; V of a unit is right to 1e-9 of itself at worst."""
DRAWN = 1e-3
"""Relative, of bootstrapped errors: units are drawn in the order of M and V, which rounding may change for two."""
LAYERS = [Layer(index, f"block {index}", 48) for index in range(4)]
ALL = tuple(POPULATIONS)


def state(**frame: Any) -> State:
    """Four layers of hard vectors; the last has no massive position."""
    folds = {}
    for layer in LAYERS:
        case = hard(rows=1200, seed=layer.index)
        above = float("inf") if layer.index == 3 else case.frame.massive_above
        folds[layer.index] = case.fold(replace(case.frame, massive_above=above, **frame))
    return State(folds, Units("token", [Unit(f"u{code}", f"u{code}", code, code == BOS) for code in range(80)]))


def frames(tables: SurveyTables) -> dict[str, pd.DataFrame]:
    return {name: getattr(tables, name) for name in SurveyTables.__dataclass_fields__}


@pytest.mark.parametrize("contextuality", [False, True])
def test_parallel_layers_give_the_same_bits(contextuality: bool) -> None:
    made = state(contextuality=contextuality)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        messages: list[str] = []
        one = make_tables(made, LAYERS, ALL, workers=1)
        several = make_tables(made, LAYERS, ALL, workers=3, say=messages.append)
    finally:
        torch.set_num_threads(before)
    for name, table in frames(one).items():
        other = frames(several)[name]
        pd.testing.assert_frame_equal(
            table, other, check_exact=name != "layers", rtol=1e-12
        )  # numpy's own threads
    assert [line.split()[2] for line in messages] == ["0", "1", "2", "3"]


IN_FLOAT32 = ("scales", "spectra", "neighbours")  # some are computed in it, and spectra are stored so


def check_close(found: SurveyTables, expected: SurveyTables) -> None:
    """Check that integers and reasons are equal and other numbers agree up to rounding."""
    for name, table in frames(expected).items():
        other = frames(found)[name]
        if name == "neighbours":  # with a coordinate at 3,000 all cosines are equal but for rounding
            table, other = (each.drop(columns="neighbour") for each in (table, other))
        assert list(table.columns) == list(other.columns)
        for column in table.columns:
            if table[column].dtype.kind != "f":
                assert table[column].equals(other[column]), (name, column)
                continue
            limit = DRAWN if column in SET_COLUMNS or column.endswith("_se") else CLOSE
            if name in ("scales", "spectra", "neighbours") or column in (
                "mle_dim",
                "scale_jump",
                "anisotropy_svd_shuffled",
            ):
                limit = 1e-6  # some are computed, and spectra are stored, in float32
            ours, theirs = table[column].to_numpy(float), other[column].to_numpy(float)
            # Two solvers agree on an eigenvalue up to rounding of the largest one.
            least = 1e-14 * ours.max() if column == "eigenvalue" else 1e-9
            np.testing.assert_allclose(theirs, ours, rtol=limit, atol=least, err_msg=f"{name}.{column}")


@pytest.mark.parametrize("device", DEVICES)
def test_on_a_device_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """On the CPU, too, the sums are passed on as tensors, so that the code path of devices runs."""
    made = state()
    expected = make_tables(made, LAYERS, ALL, workers=1)
    if device == "cpu":
        monkeypatch.setattr(UnitSums, "readable", property(lambda sums: sums.sum))
    check_close(make_tables(made, LAYERS, ALL, workers=2, device=device), expected)


def test_sums_that_do_not_fit_on_the_device_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = state().folds[0]
    assert gpu.copy_sums_to_device(fold, None) is None
    moved = gpu.copy_sums_to_device(fold, "cpu")
    assert moved is not None
    assert all(torch.equal(moved[cell], table.sum) for cell, table in enumerate(fold.moments.tables))
    monkeypatch.setattr(gpu, "free_memory", lambda device: (1000, 2000))
    assert gpu.copy_sums_to_device(fold, "cuda") is None


def test_the_number_of_workers_is_bounded_by_memory_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    made = state()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    copy = max(table.sum.nbytes for fold in made.folds.values() for table in fold.moments.tables)
    assert _workers(made, LAYERS, 0) == COPIES
    assert _workers(made, LAYERS, copy) == COPIES + 1 == len(LAYERS)
    assert _workers(made, LAYERS, 100 * copy) == len(LAYERS)
    assert _workers(made, LAYERS[:1], 100 * copy) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert _workers(made, LAYERS, 100 * copy) == 1


def test_results_are_in_order_and_thread_counts_restored() -> None:
    before = torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info()]
    seen: list[tuple[int, int]] = []
    first = threading.Event()

    def call(number: int) -> int:
        if number == 0:
            assert first.wait(10)  # the second is done before the first
        first.set()
        blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        seen.append((torch.get_num_threads(), max(blas, default=1)))
        return number * number

    with run_in_threads(call, range(5), 2) as waits:
        assert [wait() for wait in waits] == [0, 1, 4, 9, 16]
    assert set(seen) == {(1, 1)}
    assert (torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info()]) == before


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_thread_is_raised_where_its_result_is_awaited(workers: int) -> None:
    def call(number: int) -> int:
        if number == 1:
            raise ValueError("one")
        return number

    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="one"), run_in_threads(call, range(50), workers) as waits:
        assert [wait() for wait in waits]
    assert torch.get_num_threads() == before


def test_the_state_is_written_in_the_background(tmp_path: Path) -> None:
    made = state()
    known = made.save(tmp_path / "alone")
    with gpu.write_in_background(made, tmp_path / "ahead") as written:
        assert written is not None
        make_tables(made, LAYERS, ALL, workers=2)
        assert written() == known
    for name in (STATE, SAMPLE):
        assert (tmp_path / "alone" / name).read_bytes() == (tmp_path / "ahead" / name).read_bytes()
        assert known[name] == checksum(tmp_path / "ahead" / name)
    with gpu.write_in_background(made, None) as written:
        assert written is None


def test_a_failing_disk_is_reported_when_the_survey_is_saved(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with gpu.write_in_background(state(), tmp_path / "file") as written:
        assert written is not None
        with pytest.raises(OSError, match="file"):
            written()


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """Release the objects that the test suite has frozen, and freeze them again afterwards."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("unfrozen")
def test_objects_are_frozen_until_the_context_ends() -> None:
    with freeze_objects():
        frozen = gc.get_freeze_count()
        with freeze_objects():
            pass
        assert gc.get_freeze_count() > 0.9 * frozen > threads.FROZEN_BY_PYTHON  # the inner one changed nothing
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("unfrozen")
def test_objects_that_the_program_froze_stay_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with freeze_objects():
        pass
    assert gc.get_freeze_count() > 0.9 * before  # a few objects end when nothing refers to them any more
