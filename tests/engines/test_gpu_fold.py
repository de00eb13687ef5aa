"""A survey with its sums on the device reports the same numbers as one with its sums on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.devices import DEVICES
from tests.hard_cases import hard
from tests.shared import slow
from tests.small_models import sentences

import theodolite
from theodolite.engines.gpu import move_to_device
from theodolite.engines.progress import Listener
from theodolite.sources.units import Units
from theodolite.state.state import State
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.fold import LayerFold
from theodolite.surveys import text_survey as text_surveys

SUMS = 1e-5
"""Relative: float32 sums within a batch, in another order."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences(100, seed=1, longest=20)), encoding="utf-8")
    return path


@pytest.fixture(params=DEVICES)
def residing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device on which a survey keeps its sums; on the CPU only because the test requests it."""
    if request.param == "cpu":
        monkeypatch.setattr(text_surveys, "_resident", lambda kind: True)
    return str(request.param)


@pytest.mark.parametrize(
    ("dtype", "units"),
    [("bfloat16", "word"), slow("float32", "word"), slow("bfloat16", "id"), slow("float32", "id")],
)
def test_tables_are_the_same(
    small_model: Any, corpus: Path, residing: str, dtype: str, units: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"device": residing, "dtype": dtype, "units": units, "batch_tokens": 500, "sample_size": 256}
    on_device = theodolite.survey(small_model("llama"), corpus, **settings)
    monkeypatch.setattr(text_surveys, "_resident", lambda kind: False)
    on_cpu = theodolite.survey(small_model("llama"), corpus, **settings)
    for table in ("layers", "coordinates"):
        ours, theirs = getattr(on_device, table), getattr(on_cpu, table)
        assert list(ours.columns) == list(theirs.columns)
        for column in ours.columns:
            if ours[column].dtype.kind == "f":
                a, b = ours[column].to_numpy(float), theirs[column].to_numpy(float)
                np.testing.assert_allclose(a, b, rtol=SUMS, atol=SUMS, err_msg=f"{table} {column}")
            else:
                assert ours[column].equals(theirs[column]), column
    assert (on_device.tokens["n"].to_numpy() == on_cpu.tokens["n"].to_numpy()).all()
    np.testing.assert_allclose(on_device.tokens["v"], on_cpu.tokens["v"], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_an_interrupted_run_resumes_with_equal_bits(
    small_model: Any, corpus: Path, residing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHARD_CHARS", "GPU_SHARD_CHARS"):
        monkeypatch.setattr(text_surveys, name, 1500)
    settings = {"device": residing, "batch_tokens": 300, "dtype": "bfloat16", "sample_size": 256}
    whole = theodolite.survey(small_model("llama"), corpus, out=tmp_path / "whole", **settings)

    class Stops(Listener):
        asked = 0

        def stop(self) -> bool:
            self.asked += 1
            return self.asked > 4

    with pytest.raises(theodolite.TheodoliteError, match="Interrupted"):
        theodolite.survey(small_model("llama"), corpus, out=tmp_path / "parts", listener=Stops(), **settings)
    again = theodolite.survey(small_model("llama"), corpus, out=tmp_path / "parts", resume=True, **settings)
    assert again.tokens.equals(whole.tokens)
    assert again.layers.equals(whole.layers)


def test_a_gpu_fold_merges_with_a_cpu_fold(small_model: Any, corpus: Path, residing: str) -> None:
    half = {"pilot": None, "batch_tokens": 500}
    on_device = theodolite.survey(small_model("bert"), corpus, device=residing, limit=45, **half)
    assert on_device.state.folds[0].moments.population([0]).n.sum() > 0
    other = corpus.with_name("other.txt")
    other.write_text("\n".join(sentences(40, seed=9, longest=20)), encoding="utf-8")
    on_cpu = theodolite.survey(small_model("bert"), other, device="cpu", **half)
    both = theodolite.merge([on_device, on_cpu])
    assert both.state.positions == on_device.state.positions + on_cpu.state.positions


def test_an_empty_fold_is_not_copied_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    case, loaded = hard(torch.float32), list[GpuFold]()
    load = GpuFold.load
    monkeypatch.setattr(GpuFold, "load", lambda fold, state: (loaded.append(fold), load(fold, state)))
    empty, full, lost = (LayerFold(case.frame) for _ in range(3))
    for batch in case.batches(100):
        full.update(batch)
        nothing = replace(batch, states=torch.full_like(batch.states, torch.nan))
        lost.update(nothing)
    assert [fold.is_empty for fold in (empty, full, lost)] == [True, False, False]
    expected = {name: part.clone() for name, part in full.state().items()}
    state = State({0: empty, 1: full, 2: lost}, Units("id"))
    move_to_device(state, "cpu")
    assert loaded == [state.folds[1], state.folds[2]]
    moved = state.folds[1].state()
    assert torch.equal(moved["groups.sum"], expected["groups.sum"])
    assert int(state.folds[2].state()["norms.nonfinite"].sum()) == len(case.states)
