"""Long windows: no padding, and no mask of (tokens, tokens) for windows of one length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.small_models import load

from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import LONG_WINDOW

LENGTHS = (LONG_WINDOW + 100, LONG_WINDOW + 101)


@pytest.mark.parametrize("kind", ["id", "word"])
def test_long_windows_of_other_lengths_are_not_padded(small_model: Callable[[str], Path], kind: str) -> None:
    model, tokenizer = load(small_model("llama"))
    source = TextSource(model, tokenizer, kind=kind, max_tokens=2 * LONG_WINDOW, batch_tokens=10 * LONG_WINDOW)
    word = " the"
    added = len(tokenizer(word)["input_ids"]) - 1
    texts = [word * ((length - 1) // added) for length in LENGTHS]
    batches = source.prepare(list(enumerate(texts)))
    assert len(batches) == len(LENGTHS)
    assert all(batch.mask.all() for batch in batches)
    short = source.prepare(list(enumerate((word * 100, word * 101))))
    assert [len(batch.names) for batch in short] == [2]  # short ones are padded and share a batch


def test_attention_gets_no_mask_for_a_lone_window(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("llama"))
    model.config.max_position_embeddings = 2 * LONG_WINDOW
    source = TextSource(model, tokenizer, max_tokens=2 * LONG_WINDOW, batch_tokens=LONG_WINDOW)
    masks: list[Any] = []

    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        masks.append(kwargs["attention_mask"])

    model.layers[0].self_attn.register_forward_pre_hook(note, with_kwargs=True)
    (lone,) = source.prepare([(0, " the" * LENGTHS[0])])
    assert lone.tokens > LONG_WINDOW
    source.run(lone, lambda batch: None)
    (padded,) = source.prepare([(0, " the" * 9), (1, " the" * 10)])
    source.run(padded, lambda batch: None)
    assert masks[0] is None
    assert masks[1] is not None  # or the test would pass for any model
