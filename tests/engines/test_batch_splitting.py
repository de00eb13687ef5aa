"""Memory that runs out in the middle: batches are split, and no window is lost or counted twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.listeners import RecordingListener
from tests.shared import slow
from tests.small_models import load, sentences

from theodolite.errors import TheodoliteError
from theodolite.sources.batch_limit import BatchLimit
from theodolite.sources.text.source import TextSource
from theodolite.statistics.fold import LayerFold
from theodolite.surveys.api import survey as whole_survey

TEXTS = sentences(80, seed=3)
survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest
WITHOUT_SINKS = ("all", "without-first", "without-massive")  # states are added as they leave their blocks
BATCH = 1024
ROUNDING = 1e-5
"""Batches of other sizes round differently in float32; measured below 1e-6."""


def fail_above(module: Any, most: int, error: Exception, times: int = 10**9) -> list[int]:
    """Let a module raise the error for inputs of more tokens; return the list of the sizes that failed."""
    failed: list[int] = []

    def raise_if_large(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        if states.shape[0] * states.shape[1] > most and len(failed) < times:
            failed.append(states.shape[0] * states.shape[1])
            raise error

    module.register_forward_pre_hook(raise_if_large, with_kwargs=True)
    return failed


def assert_same_numbers(one: Any, other: Any) -> None:
    assert one.state.positions == other.state.positions
    for name in ("layers", "tokens"):
        these, those = (getattr(each, name).select_dtypes("number") for each in (one, other))
        assert these.shape == those.shape
        np.testing.assert_array_equal(these["n"], those["n"])
        for column in ("q", "m", "v"):
            if column in these:
                scale = np.nanmax(np.abs(those[column]))
                np.testing.assert_allclose(these[column], those[column], rtol=ROUNDING, atol=ROUNDING * scale)


INCOMPLETE = "the sums of this batch were incomplete: continuing from the last checkpoint"
FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
    MemoryError(),
]


@pytest.mark.parametrize(
    ("error", "populations"),
    [
        slow(FULL[0], None),
        (FULL[1], WITHOUT_SINKS),
        (FULL[2], None),
        slow(FULL[0], WITHOUT_SINKS),
        slow(FULL[1], None),
        slow(FULL[2], WITHOUT_SINKS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "added" if value else "held",
)
def test_a_forward_pass_that_does_not_fit_is_repeated_in_halves(
    small_model: Callable[[str], Path], error: Exception, populations: Any
) -> None:
    given = {} if populations is None else {"populations": populations}
    whole = survey(str(small_model("llama")), TEXTS, batch_tokens=BATCH, **given)
    model, tokenizer = load(small_model("llama"))
    failed = fail_above(model.layers[1], 300, error)
    listener = RecordingListener()
    made = survey(model, TEXTS, tokenizer=tokenizer, batch_tokens=BATCH, listener=listener, **given)
    assert 0 < len(failed) <= 8  # later batches are split in advance
    assert any("ran out of memory" in text and "--batch-tokens" in text for text in listener.warned)
    assert_same_numbers(made, whole)


@pytest.mark.parametrize(
    ("family", "units"), [("bert", "word"), slow("llama", "id"), slow("bert", "id"), slow("llama", "word")]
)
def test_words_and_encoders_are_split_too(small_model: Callable[[str], Path], family: str, units: str) -> None:
    whole = survey(str(small_model(family)), TEXTS, batch_tokens=BATCH, units=units)
    model, tokenizer = load(small_model(family))
    blocks = model.layers if family == "llama" else model.encoder.layer
    assert fail_above(blocks[0], 200, FULL[0]) == []
    made = survey(model, TEXTS, tokenizer=tokenizer, batch_tokens=BATCH, units=units)
    assert_same_numbers(made, whole)


def test_deferred_work_that_does_not_fit_either(
    small_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forward pass fails, and then what was deferred of the batch before: that batch is only partly added."""
    whole = survey(str(small_model("llama")), TEXTS, batch_tokens=BATCH)
    model, tokenizer = load(small_model("llama"))
    fail_above(model.layers[1], 300, FULL[0])
    deferred: list[LayerFold] = []

    def catch_up(self: LayerFold, batch: Any = None) -> None:
        if batch is None and not deferred:
            deferred.append(self)
            raise FULL[0]

    monkeypatch.setattr(LayerFold, "catch_up", catch_up)
    listener = RecordingListener()
    made = survey(model, TEXTS, tokenizer=tokenizer, batch_tokens=BATCH, listener=listener)
    assert INCOMPLETE in listener.warned
    assert_same_numbers(made, whole)


@pytest.mark.parametrize(
    ("saved", "units"), [(True, "word"), slow(False, "word"), slow(True, "id"), slow(False, "id")]
)
def test_sums_with_a_part_of_a_batch_are_not_kept(
    small_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool, units: str
) -> None:
    """Memory runs out while a layer is added: the run goes back to its last checkpoint or to the start."""
    given: dict[str, Any] = {"batch_tokens": 512, "units": units, "checkpoint_every": 0.0}
    whole = survey(str(small_model("bert")), TEXTS, **given)
    plain, calls = LayerFold.update, list[int]()

    def update(self: LayerFold, batch: Any, **more: Any) -> None:
        calls.append(len(batch.places))
        plain(self, batch, **more)
        if len(calls) == 14:  # in the middle of the fourth batch, after this layer was added
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(LayerFold, "update", update)
    listener = RecordingListener()
    out = {"out": tmp_path / "survey"} if saved else {}
    made = survey(str(small_model("bert")), TEXTS, listener=listener, **given, **out)
    assert len(calls) > 14
    assert any("last checkpoint" in text for text in listener.warned)
    assert_same_numbers(made, whole)


@pytest.mark.slow
def test_a_run_that_split_its_batches_is_resumed(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    given: dict[str, Any] = {"batch_tokens": BATCH, "out": tmp_path / "survey"}
    whole = survey(str(small_model("llama")), TEXTS, batch_tokens=BATCH)
    model, tokenizer = load(small_model("llama"))
    fail_above(model.layers[1], 300, FULL[0])
    with pytest.raises(TheodoliteError, match="Interrupted after"):
        survey(model, TEXTS, tokenizer=tokenizer, listener=RecordingListener(stop_at=3), **given)
    model, tokenizer = load(small_model("llama"))  # now everything fits
    made = survey(model, TEXTS, tokenizer=tokenizer, resume=True, **given)
    assert_same_numbers(made, whole)


def test_one_window_that_does_not_fit_is_reported(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("llama"))
    fail_above(model.layers[1], 20, FULL[0])
    expected = r"window of .* tokens does not fit .* --max-tokens, --dtype bfloat16"
    with pytest.raises(TheodoliteError, match=expected):
        survey(model, TEXTS, tokenizer=tokenizer, batch_tokens=BATCH)


def test_other_errors_are_not_taken_for_a_full_device(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("llama"))
    fail_above(model.layers[1], 300, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        survey(model, TEXTS, tokenizer=tokenizer, batch_tokens=BATCH)


@pytest.mark.parametrize("units", ["id", "word"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_parts_of_a_batch_have_its_rows(small_model: Callable[[str], Path], units: str, packed: bool) -> None:
    model, tokenizer = load(small_model("llama"))
    source = TextSource(model, tokenizer, kind=units, max_tokens=64, batch_tokens=700, end_to_end=packed)
    limit = BatchLimit()
    limit.tokens = 150

    def states(batches: list[Any]) -> dict[int, tuple[int, torch.Tensor]]:
        found: dict[int, tuple[int, torch.Tensor]] = {}

        def sink(batch: Any) -> None:
            if batch.layer == 2:
                parts = zip(batch.places.key.tolist(), batch.places.unit.tolist(), batch.taken(), strict=True)
                found.update({key: (unit, vector) for key, unit, vector in parts})

        for each in batches:
            source.run(each, sink)
        return found

    whole = source.prepare(list(enumerate(TEXTS[:40])))
    parts = [part for batch in whole for part in limit.split(batch)]
    assert len(parts) > len(whole)
    assert all(part.tokens <= limit.tokens or len(part.names) == 1 for part in parts)
    assert (
        np.concatenate([part.names for part in parts]).tolist()
        == np.concatenate([batch.names for batch in whole]).tolist()
    )
    one, other = states(list(whole)), states(parts)
    assert one.keys() == other.keys()
    for key, (unit, vector) in one.items():
        assert other[key][0] == unit
        torch.testing.assert_close(other[key][1], vector, rtol=1e-4, atol=1e-5)
