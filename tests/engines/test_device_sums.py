"""Sums by unit that stay on the device while tables are made: the same tables and files, nothing left behind."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tests.devices import DEVICES
from tests.shared import slow
from tests.small_models import sentences

import theodolite
from theodolite import devices as statistics
from theodolite.devices import DeviceTensor
from theodolite.engines import gpu
from theodolite.engines.progress import Listener
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.cuda.tables import GpuUnitTable
from theodolite.statistics.moments import UnitSums
from theodolite.storage import tensor_file
from theodolite.storage.file_names import FACTS, REPLACEMENT, SAMPLE, STATE, UNFINISHED
from theodolite.storage.files import write_tensors
from theodolite.surveys import folder as folders
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.folder import FILES
from theodolite.tables import tables

TABLES = ("layers", "tokens", "units", "coordinates", "scales", "spectra")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences(40, seed=1, longest=20)), encoding="utf-8")
    return path


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device of the sums; on the CPU, too, formulas receive them as tensors, as from a GPU."""
    if request.param == "cpu":
        monkeypatch.setattr(text_surveys, "_resident", lambda kind: True)
        monkeypatch.setattr(UnitSums, "readable", property(lambda sums: sums.sum))
    return str(request.param)


def made(small_model: Any, corpus: Path, device: str, out: Path | None = None, **settings: Any) -> Any:
    settings = {"populations": ("all",), "sample_size": 64, "batch_tokens": 200, **settings}
    return theodolite.survey(small_model("bert"), corpus, device=device, out=out, **settings)


class Seen:
    """Weak references to the tensors that were on the device, and the threads that copied them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: list[weakref.ref[torch.Tensor]] = []
        self.tables: list[weakref.ref[torch.Tensor]] = []
        self.by_unit: list[bool] = []  # whether the sums by unit of each cell were left on the device
        self.threads: set[str] = set()
        begin, copy, over = DeviceTensor.__init__, statistics._copy_from_device, GpuFold.hand_over

        def record_start(device_tensor: DeviceTensor, tensor: torch.Tensor, *, narrow: bool = False) -> None:
            self.left.append(weakref.ref(tensor))
            begin(device_tensor, tensor, narrow=narrow)

        def copied(*given: Any) -> torch.Tensor:
            self.threads.add(threading.current_thread().name.split("_")[0])
            return copy(*given)

        def handed_over(fold: GpuFold) -> Any:
            held = [*(table.sum for table in fold._tables.values()), *fold._products.values()]
            held += [sample._vectors for sample in fold.samples if sample._vectors is not None]
            self.tables += [weakref.ref(tensor) for tensor in held]
            result = over(fold)
            self.by_unit += [isinstance(table.stored_sum, DeviceTensor) for table in result.moments.tables]
            return result

        monkeypatch.setattr(DeviceTensor, "__init__", record_start)
        monkeypatch.setattr(statistics, "_copy_from_device", copied)
        monkeypatch.setattr(GpuFold, "hand_over", handed_over)

    def alive(self) -> int:
        return sum(one() is not None for one in (*self.left, *self.tables))


@pytest.mark.parametrize("populations", [("all", "without-first", "without-massive"), slow(("all",))])
def test_tables_and_files_equal_those_of_sums_copied_first(
    small_model: Any,
    corpus: Path,
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    populations: tuple[str, ...],
) -> None:
    found = made(small_model, corpus, device, tmp_path / "there", populations=populations)
    monkeypatch.setattr(GpuFold, "hand_over", GpuFold.to_cpu)
    expected = made(small_model, corpus, device, tmp_path / "here", populations=populations)
    for table in TABLES:
        assert getattr(found.tables, table).equals(getattr(expected.tables, table)), table
    for name in (STATE, SAMPLE):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert folders.open_survey(tmp_path / "there").facts["files"] == expected.facts["files"]


@pytest.mark.parametrize("to_disk", [True, False])
def test_nothing_stays_on_the_device(
    small_model: Any, corpus: Path, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_disk: bool
) -> None:
    seen = Seen(monkeypatch)
    gc.disable()  # reference cycles would keep GPU memory until the next collection
    try:
        survey = made(small_model, corpus, device, tmp_path / "out" if to_disk else None)
        assert any(seen.by_unit)
        assert seen.tables
        assert not seen.alive()
    finally:
        gc.enable()
    assert not survey.state.device_tensors()
    assert all(table.sum.device.type == "cpu" for f in survey.state.folds.values() for table in f.moments.tables)
    copying = {"copying sums", "copying", "writing", "writing samples"}  # measuring copied none
    if device == "cpu":  # where a matrix is read by whoever comes first
        copying.add("solving")
    assert seen.threads <= copying


def test_sums_that_do_not_fit_are_measured_on_the_cpu(
    small_model: Any, corpus: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = made(small_model, corpus, device)
    monkeypatch.setattr("theodolite.tables.tables.copy_sums_to_device", lambda fold, device, left: None)
    found = made(small_model, corpus, device)
    assert found.tables.tokens["n"].equals(expected.tables.tokens["n"])
    assert not found.state.device_tensors()


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")]
)
@pytest.mark.parametrize("failures", [1, 2])
def test_a_layer_whose_tables_do_not_fit_on_the_device_is_measured_again_or_on_the_cpu(
    failures: int,
    error: Exception,
    small_model: Any,
    corpus: Path,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = made(small_model, corpus, device)
    measure, full, on_cpu = tables.measure_shape, Counter[int](), set[int]()

    def run_out(fold: Any, cells: Any, device: str | None = None, *given: Any) -> Any:
        if device is not None and full[id(fold)] < failures:
            full[id(fold)] += 1
            raise error
        if device is None:
            on_cpu.add(id(fold))
        return measure(fold, cells, device, *given)

    monkeypatch.setattr(tables, "measure_shape", run_out)
    found = made(small_model, corpus, device)
    layers = len(found.facts["layers"])
    assert list(full.values()) == [failures] * layers
    assert len(on_cpu) == (0 if failures == 1 else layers)
    numbers = found.layers.select_dtypes("float").columns
    pd.testing.assert_frame_equal(found.layers[numbers], expected.layers[numbers], rtol=1e-6)


def test_a_table_moved_to_the_host_is_handed_over_unchanged(
    small_model: Any, corpus: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = made(small_model, corpus, device)
    monkeypatch.setattr("theodolite.statistics.cuda.tables.fits_on_device", lambda count, device: False)
    seen = Seen(monkeypatch)
    found = made(small_model, corpus, device)
    assert seen.by_unit
    assert not any(seen.by_unit)
    assert found.tables.tokens["n"].equals(expected.tables.tokens["n"])


def test_sums_on_the_device_are_reused_and_others_copied() -> None:
    from tests.hard_cases import hard

    fold = hard(rows=300).fold()
    first = fold.moments.tables[0]
    first.load(first.codes, first.n, DeviceTensor(first.sum.clone()), first.squares)
    left = gpu.sums_on_device({7: fold})
    assert list(left) == [7]
    assert list(left[7].sums) == [0]
    taken = left[7].sums[0]
    moved = gpu.copy_sums_to_device(fold, "cpu", left[7].sums)
    assert moved is not None
    assert moved[0] is taken
    assert isinstance(first.stored_sum, DeviceTensor)
    assert all(torch.equal(moved[cell], table.sum) for cell, table in enumerate(fold.moments.tables))


@pytest.mark.parametrize("to_disk", [True, False])
def test_an_error_during_copying_is_raised(
    small_model: Any, corpus: Path, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_disk: bool
) -> None:
    def fail(device_tensor: DeviceTensor) -> torch.Tensor:
        raise MemoryError("no room for sums")

    monkeypatch.setattr(DeviceTensor, "cpu", fail)
    out = tmp_path / "out"
    with pytest.raises(MemoryError, match="no room for sums"):
        made(small_model, corpus, device, out if to_disk else None)
    assert not (out / FACTS).exists()


def test_a_full_disk_is_reported_and_leaves_no_survey(
    small_model: Any, corpus: Path, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, *rest: Any, **options: Any) -> str:
        if path.name.startswith(f".{STATE}"):
            raise OSError(28, os.strerror(28))
        return write_safetensors(path, *rest, **options)

    from theodolite.storage.tensor_file import write_safetensors

    monkeypatch.setattr("theodolite.storage.files.write_safetensors", write)
    with pytest.raises(theodolite.TheodoliteError, match="disk is full"):
        made(small_model, corpus, device, tmp_path / "out")
    assert not (tmp_path / "out" / FACTS).exists()
    assert (tmp_path / "out" / UNFINISHED).exists()


def test_an_interruption_while_measuring_leaves_no_survey(
    small_model: Any, corpus: Path, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stops(Listener):
        def say(self, text: str) -> None:
            if text.startswith("measuring"):
                raise KeyboardInterrupt

    out = tmp_path / "out"
    whole = made(small_model, corpus, device, out)
    with pytest.raises(KeyboardInterrupt):
        made(small_model, corpus, device, out, overwrite=True, listener=Stops())
    assert (out / REPLACEMENT / UNFINISHED).exists()
    assert not (out / REPLACEMENT / FACTS).exists()
    again = made(small_model, corpus, device, out, resume=True)
    assert again.tables.tokens.equals(whole.tables.tokens)
    assert {path.name for path in out.iterdir()} == {*FILES, FACTS}


def test_a_failing_flush_while_writing_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reports the error once: the flush at the end would succeed."""

    def flush(file: int) -> None:
        raise OSError(5, os.strerror(5))

    tensors = {"a": torch.arange(5), "b": torch.ones(3, 2)}
    whole = write_tensors(tmp_path / "whole", tensors, {})
    monkeypatch.setattr(tensor_file, "FLUSH_BYTES", 1)
    assert write_tensors(tmp_path / "often", tensors, {}) == whole
    assert (tmp_path / "often").read_bytes() == (tmp_path / "whole").read_bytes()
    monkeypatch.setattr(os, "fdatasync", flush)
    with pytest.raises(theodolite.TheodoliteError, match=r"never could not be written: .*error"):
        write_tensors(tmp_path / "never", tensors, {})
    assert not (tmp_path / "never").exists()


def test_a_cleared_table_is_empty() -> None:
    table = GpuUnitTable(3, torch.device("cpu"))
    table.n, table.sum = torch.ones(4, dtype=torch.int64), torch.ones(4, 3).double()
    table.clear()
    assert (len(table.n), table.sum.untyped_storage().nbytes()) == (0, 0)
