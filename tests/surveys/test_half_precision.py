"""Samples of a model in half precision take half of the space, and every number stays the same."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared import shared_folder
from tests.small_models import sentences
from tests.surveys import runner
from tests.surveys.test_resume import assert_equal

import theodolite
from theodolite.half_precision import widen
from theodolite.state.state import State
from theodolite.statistics.cells import CELLS
from theodolite.storage import tensor_file
from theodolite.storage.file_names import SAMPLE
from theodolite.storage.files import read_tensors
from theodolite.studies.block.inputs import read_sampled_states
from theodolite.studies.sample_file import SampleFile
from theodolite.surveys import run as runs
from theodolite.surveys import text_survey

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = sentences(60, seed=9)
HALVES = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
TABLES = ("layers", "tokens", "units", "coordinates", "scales", "spectra", "jackknife", "neighbours")


def survey(model: Path, out: Path | None = None, dtype: str = "bfloat16", **settings: Any) -> theodolite.Survey:
    given = {"sample_size": 200, "batch_tokens": 300, "device": "cpu", **settings}
    return theodolite.survey(str(model), TEXTS, dtype=dtype, out=out, **given)


def write_as_before(patch: pytest.MonkeyPatch) -> None:
    """Write vectors in float32, as older versions do."""
    patch.setattr(tensor_file, "exact_dtype", lambda tensor: tensor.dtype)


@pytest.fixture(scope="module")
def folders(
    small_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, Path]]:
    """Give the same survey as it is written now, and as an older version wrote it."""

    def make(root: Path, dtype: str) -> None:
        survey(small_model("bert"), root / "new", dtype)
        with pytest.MonkeyPatch.context() as patch:
            write_as_before(patch)
            survey(small_model("bert"), root / "old", dtype)

    def find(dtype: str) -> tuple[Path, Path]:
        root = shared_folder(tmp_path_factory, f"surveys-{dtype}", lambda root: make(root, dtype))
        return root / "new", root / "old"

    return find


def types_of(path: Path) -> set[torch.dtype]:
    return {tensor.dtype for name, tensor in read_tensors(path)[0].items() if name.endswith(".vector")}


def assert_same_samples(one: State, other: State) -> None:
    """Compare samples bit for bit."""
    assert one.folds.keys() == other.folds.keys()
    for index, fold in one.folds.items():
        mine, theirs = fold.sample.state(), other.folds[index].sample.state()
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            assert tensor.dtype == theirs[name].dtype == (torch.float32 if "vector" in name else torch.int64)
            assert tensor.numpy().tobytes() == theirs[name].numpy().tobytes()


@HALVES
def test_the_file_is_half_as_large_and_read_as_before(
    folders: Callable[[str], tuple[Path, Path]], dtype: str
) -> None:
    new, old = folders(dtype)
    assert types_of(new / SAMPLE) == {getattr(torch, dtype)}
    assert types_of(old / SAMPLE) == {torch.float32}
    before = read_tensors(old / SAMPLE)[0]
    for name, tensor in read_tensors(new / SAMPLE)[0].items():
        assert torch.equal(widen(tensor), before[name])
    vectors = sum(tensor.nbytes for name, tensor in before.items() if name.endswith(".vector"))
    assert (new / SAMPLE).stat().st_size < (old / SAMPLE).stat().st_size - 0.49 * vectors
    opened, expected = theodolite.open(new), theodolite.open(old)
    assert_same_samples(opened.state, expected.state)
    for table in TABLES:
        pd.testing.assert_frame_equal(getattr(opened.tables, table), getattr(expected.tables, table))


def test_a_survey_in_single_precision_keeps_its_vectors(small_model: Any, tmp_path: Path) -> None:
    made = survey(small_model("bert"), tmp_path / "out", "float32")
    assert types_of(tmp_path / "out" / SAMPLE) == {torch.float32}
    assert_same_samples(theodolite.open(tmp_path / "out").state, made.state)


def test_a_survey_in_memory_has_the_sample_of_its_folder(small_model: Any, tmp_path: Path) -> None:
    made = survey(small_model("gpt2"), tmp_path / "out")
    assert_same_samples(theodolite.open(tmp_path / "out").state, made.state)


@pytest.mark.parametrize("keep_sums", [True, False])
def test_vectors_on_a_device_are_copied_in_half_precision(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_sums: bool
) -> None:
    monkeypatch.setattr(text_survey, "_resident", lambda device: True)
    monkeypatch.setattr(runs, "MAX_SUMS", 1000)
    made = survey(small_model("bert"), tmp_path / "out", keep_sums=keep_sums)
    assert made.state.has_sums == keep_sums
    assert not made.state.device_tensors()
    held = [one for fold in made.state.folds.values() for one in fold.sample._on_device.values()]
    assert held
    assert {one.cpu().dtype for one in held} == types_of(tmp_path / "out" / SAMPLE) == {torch.bfloat16}
    assert_same_samples(theodolite.open(tmp_path / "out").state, made.state)


def test_all_readers_of_the_sample_return_float32(folders: Callable[[str], tuple[Path, Path]]) -> None:
    new, old = folders("bfloat16")
    found, expected = (SampleFile(folder).rows(1, "all") for folder in (new, old))
    assert found.vector.dtype == np.float32
    assert found.vector.tobytes() == expected.vector.tobytes()
    sampled = read_sampled_states(new, 1, "all")
    assert sampled.dtype == torch.float32
    assert torch.equal(sampled, read_sampled_states(old, 1, "all"))


def test_cells_in_different_precision_are_read_together(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision for each tensor: those of one layer may differ."""
    out, chosen = tmp_path / "out", list[torch.dtype]()

    def alternate(tensor: torch.Tensor) -> torch.dtype:
        if tensor.dtype != torch.float32:
            return tensor.dtype
        chosen.append((torch.bfloat16, torch.float32)[len(chosen) % 2])
        return chosen[-1]

    monkeypatch.setattr(tensor_file, "exact_dtype", alternate)
    made = survey(small_model("bert"), out, populations=("all", "without-first"))
    stored = read_tensors(out / SAMPLE, "layer1.")[0]
    assert len({stored[f"layer1.sample.{cell}.vector"].dtype for cell in CELLS[:2]}) == 2
    expected = made.state.folds[1].sample.population([0, 1])["vector"]
    assert torch.equal(read_sampled_states(out, 1, "all")[: len(expected)], expected)
    assert np.array_equal(SampleFile(out).rows(1, "all").vector, expected.numpy())


def test_merged_surveys_are_the_same_as_before(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    parts = [tmp_path / name for name in "ab"]
    for number, part in enumerate(parts):
        survey(small_model("bert"), part, part=f"{number}/2")
    theodolite.merge(parts, out=tmp_path / "merged")
    assert types_of(tmp_path / "merged" / SAMPLE) == {torch.bfloat16}
    with monkeypatch.context() as patch:
        write_as_before(patch)
        older = tmp_path / "older"
        survey(small_model("bert"), older, part="1/2")
    both = theodolite.merge([parts[0], older], out=tmp_path / "both")
    assert_equal(tmp_path / "merged", tmp_path / "both")
    whole = survey(small_model("bert"))
    keys = [whole.state.folds[1].sample.population([0, 1])[name] for name in ("key", "vector")]
    merged = [both.state.folds[1].sample.population([0, 1])[name] for name in ("key", "vector")]
    assert all(torch.equal(one, other) for one, other in zip(keys, merged, strict=True))


def test_a_killed_survey_is_resumed_from_its_checkpoint(small_model: Any, tmp_path: Path) -> None:
    corpus, settings = tmp_path / "corpus.txt", {"dtype": "bfloat16"}
    corpus.write_text("\n".join(sentences(90, seed=31)), encoding="utf-8")

    def run(out: Path, die: str = "", **more: Any) -> int:
        child = runner.start(small_model("bert"), corpus, out, die, settings | more)
        child.join()
        return int(child.exitcode)

    assert run(tmp_path / "whole") == 0
    assert run(tmp_path / "killed", "batch 8") == -signal.SIGKILL
    newest = max((tmp_path / "killed" / "checkpoints").iterdir())
    assert types_of(newest / SAMPLE) == {torch.bfloat16}
    assert run(tmp_path / "killed", resume=True) == 0
    assert "resuming after" in (tmp_path / "killed.log").read_text()
    assert_equal(tmp_path / "killed", tmp_path / "whole")
