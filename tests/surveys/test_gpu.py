"""A survey on a GPU reports the numbers of one on the CPU, up to the rounding of its forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import sentences

import theodolite

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
FORWARD = 2e-3
"""Relative: float32 products on a GPU are summed in another order, and small models amplify little."""
COLUMNS = "q m v v_within v_between mean_cosine anisotropy_svd participation_ratio effective_rank twonn".split()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences(300, seed=1, longest=20)), encoding="utf-8")
    return path


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_the_same_as_on_the_cpu(small_model: Any, corpus: Path, family: str) -> None:
    model = small_model(family)
    on_cpu = theodolite.survey(model, corpus, device="cpu")
    on_gpu = theodolite.survey(model, corpus, device="cuda", batch_tokens=on_cpu.facts["settings"]["batch_tokens"])
    assert on_gpu.facts["model"]["device"] == "cuda"
    assert (on_cpu.layers["n"] == on_gpu.layers["n"]).all()
    for column in COLUMNS:
        ours, theirs = on_cpu.layers[column].to_numpy(float), on_gpu.layers[column].to_numpy(float)
        np.testing.assert_allclose(theirs, ours, rtol=FORWARD, atol=1e-6, err_msg=column)


def test_half_precision_runs(small_model: Any, corpus: Path) -> None:
    found = theodolite.survey(small_model("llama"), corpus, device="cuda", dtype="bfloat16", contextuality=True)
    assert np.isfinite(found.layers["q"].to_numpy(float)).all()
