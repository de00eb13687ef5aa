"""Memory that runs out in a survey by several kinds of units: every kind has every window once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.shared import slow
from tests.small_models import blocks_of, load, sentences

import theodolite
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource

TEXTS = sentences(30, seed=3)
ROUNDING = 1e-5
"""Batches of other sizes round differently in float32; measured below 1e-6."""


@pytest.mark.parametrize("kinds", [("id", "word"), slow(("id", "surface"))], ids=",".join)
def test_all_kinds_have_the_numbers_of_a_run_that_fits(
    small_model: Callable[[str], Path], kinds: tuple[str, ...]
) -> None:
    given = {"batch_tokens": 600, "units": kinds, "sample_size": 64}
    whole = theodolite.survey(small_model("bert"), TEXTS, **given)
    model, tokenizer = load(small_model("bert"))
    failed = []

    def raise_if_large(_: object, args: tuple[torch.Tensor, ...]) -> None:
        if args[0].shape[:2].numel() > 250:
            failed.append(args[0].shape[:2].numel())
            raise torch.OutOfMemoryError("CUDA out of memory")

    blocks_of(model, "bert")[1].register_forward_pre_hook(raise_if_large)
    made = theodolite.survey(model, TEXTS, tokenizer=tokenizer, **given)
    assert failed
    for kind in kinds:
        one, other = made.by(kind), whole.by(kind)
        assert one.units.equals(other.units)
        for table, columns in (("layers", ("q", "m", "v")), ("tokens", ("m", "v"))):
            these, those = getattr(one, table), getattr(other, table)
            np.testing.assert_array_equal(these["n"], those["n"])
            for column in columns:
                scale = np.nanmax(np.abs(those[column]))
                np.testing.assert_allclose(these[column], those[column], rtol=ROUNDING, atol=ROUNDING * scale)


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_halves_have_the_rows_of_every_kind(small_model: Callable[[str], Path], packed: bool) -> None:
    others = ("surface",) if packed else ("surface", "word")
    source = TextSource(
        *load(small_model("llama")), max_tokens=32, batch_tokens=500, end_to_end=packed, other_kinds=others
    )
    assert source.end_to_end == packed
    batches = [batch for batch in source.prepare(list(enumerate(TEXTS))) if len(batch.names) > 1]
    assert batches
    for batch in batches:
        halves = batch.halves()
        assert len(halves) == 2
        assert sum(half.positions for half in halves) == batch.positions
        for number, whole in enumerate(batch.others):
            assert rows([half.others[number] for half in halves]) == rows([whole])


def rows(batches: list[TextBatch]) -> list[tuple[int, int]]:
    """Return the key and the unit of every row."""
    return sorted((key, unit) for each in batches for key, unit in zip(*_columns(each), strict=True))


def _columns(batch: TextBatch) -> tuple[list[int], list[int]]:
    return batch.places.key.tolist(), batch.places.unit.tolist()
