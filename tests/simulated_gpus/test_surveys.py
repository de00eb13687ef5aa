"""Surveys of models over two GPUs, and on GPUs that run full, have the numbers of the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.simulated_gpus.machine import MACHINE
from tests.small_models import sentences

import theodolite
from theodolite.errors import TheodoliteError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not MACHINE.installed, reason="requires simulated GPUs: make test-simulated"),
]
ROUNDING = 1e-5
"""Relative: float32 products are summed in another order. The model itself runs on the CPU both times."""
FEW_VECTORS = 1e-4
"""The lowest 20% of the ratios of 32 vectors, which are close to 1, determine `twonn_keep20`."""
NEARLY_0 = 1e-7
"""The CV of Q after a norm is rounding only."""
SETTINGS: dict[str, Any] = {"batch_tokens": 128, "sample_size": 32}
FIRST, SECOND = "cuda:0", "cuda:1"
TWO_GPUS = {"embed_tokens": FIRST, "rotary_emb": FIRST, "layers.0": FIRST, "layers.1": SECOND, "norm": SECOND}
AND_BACK = {**TWO_GPUS, "norm": FIRST}
EVERYTHING = {"contextuality": True, "layer_scores": True, "by": "language"}
FAULTS = 6

Surveyed = Callable[..., Any]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    rows = [{"text": text, "language": "ab"[number % 2]} for number, text in enumerate(sentences(24, seed=1))]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def survey(small_model: Callable[[str], Path], corpus: Path) -> Surveyed:
    return lambda **options: theodolite.survey(small_model("llama"), corpus, **SETTINGS, **options)


def assert_equal(ours: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare all numbers of two tables."""
    assert list(ours.columns) == list(expected.columns)
    derived = {"m_unbiased", "v_unbiased"}  # differences of M and V, which may be nearly equal
    for name in expected.columns.difference(derived):
        if pd.api.types.is_numeric_dtype(expected[name]) and not name.endswith("_se"):
            these, those = ours[name].to_numpy(float), expected[name].to_numpy(float)
            relative = FEW_VECTORS if name == "twonn_keep20" else ROUNDING
            np.testing.assert_allclose(these, those, rtol=relative, atol=NEARLY_0, equal_nan=True, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [
        {"device_map": TWO_GPUS, **EVERYTHING},
        {"device_map": AND_BACK, "min_count": 3},
        {"device_map": TWO_GPUS, "attention": True, "attn": "eager"},
        {"device_map": AND_BACK, "units": "none"},
        {"device_map": "auto"},
        {"device": SECOND},
    ],
    ids=["everything", "min_count", "attention", "no units", "auto", "the second"],
)
def test_two_gpus_have_the_numbers_of_the_cpu(survey: Surveyed, options: dict[str, Any]) -> None:
    before = MACHINE.operations.copy()
    found = survey(**options)
    on_cpu = survey(device="cpu", **{k: v for k, v in options.items() if k not in ("device", "device_map")})
    assert_equal(found.layers, on_cpu.layers)
    assert_equal(found.tokens, on_cpu.tokens)
    assert_equal(found.coordinates, on_cpu.coordinates)
    used = {name.split()[0] for name in MACHINE.operations - before}
    if options.get("device_map") != "auto":  # accelerate places a model as small as this one on one GPU
        assert used == ({FIRST, SECOND} if "device_map" in options else {SECOND})


def test_a_loaded_model_over_two_gpus(survey: Surveyed, small_model: Any, corpus: Path) -> None:
    from accelerate import dispatch_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = small_model("llama")
    model = AutoModelForCausalLM.from_pretrained(folder)
    places = {"lm_head": SECOND} | {f"model.{name}": device for name, device in TWO_GPUS.items()}
    found = theodolite.survey(
        dispatch_model(model, places), corpus, tokenizer=AutoTokenizer.from_pretrained(folder), **SETTINGS
    )
    assert_equal(found.layers, survey(device="cpu").layers)


@pytest.fixture(scope="module")
def allocations(survey: Surveyed) -> tuple[int, Any]:
    """Return how often a survey over two GPUs allocates memory, and the survey."""
    before = MACHINE.allocations
    found = survey(device_map=TWO_GPUS)
    return MACHINE.allocations - before, found


@pytest.mark.parametrize("part", range(FAULTS))
def test_a_gpu_that_is_full_once(survey: Surveyed, allocations: tuple[int, Any], part: int) -> None:
    """Nothing is lost or counted twice, wherever memory runs out."""
    count, expected = allocations
    MACHINE.full_at = {MACHINE.allocations + round(count * (part + 0.5) / FAULTS)}
    try:
        found = survey(device_map=TWO_GPUS)
    except (TheodoliteError, torch.OutOfMemoryError):
        assert part < 2  # before the first batch, when there is nothing to lose
        return
    assert_equal(found.layers, expected.layers)
    assert_equal(found.tokens, expected.tokens)
