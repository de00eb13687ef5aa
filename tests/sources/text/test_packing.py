"""Batches built from arrays against batches built window by window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import sentences

from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.sources.text import batches
from theodolite.sources.text.encoding import encode
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import cut_windows


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("drop_special", [False, True])
@pytest.mark.parametrize("max_tokens", [7, 64])
def test_the_same_batch_as_window_by_window(
    small_model: Any, family: str, drop_special: bool, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = resolve(str(small_model(family)))
    model, tokenizer = load_model(checkpoint, dtype="float32", device="cpu"), load_tokenizer(checkpoint)
    source = TextSource(
        model, tokenizer, corpus_key=2**63 + 5, batch_tokens=200, max_tokens=max_tokens, drop_special=drop_special
    )
    documents = list(enumerate(sentences(60, seed=2, longest=20)))
    at_once = source.prepare(documents)
    monkeypatch.setattr(TextSource, "_window_arrays", lambda *given: None)
    monkeypatch.setattr(batches, "all", lambda every: False, raising=False)  # no batch is built from arrays
    one_by_one = source.prepare(documents)
    assert len(at_once) == len(one_by_one)
    for ours, theirs in zip(at_once, one_by_one, strict=True):
        assert ours.windows == theirs.windows
        for field in ("ids", "mask", "rows"):
            assert torch.equal(getattr(ours, field), getattr(theirs, field)), field
        for field in ("unit", "group", "first", "key", "context", "window"):
            a, b = getattr(ours.places, field), getattr(theirs.places, field)
            assert a.dtype == b.dtype
            assert np.array_equal(a.numpy(), b.numpy()), field


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
@pytest.mark.parametrize("max_tokens", [5, 64])
def test_the_same_windows_as_the_tokenizer_s_own_call(
    small_model: Any, family: str, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load_tokenizer(resolve(str(small_model(family))))
    texts = [*sentences(40, seed=2, longest=20), "", " ", "a", "[SEP] <s> in between", "\ud800 lone"]
    documents = list(enumerate(texts, start=3))
    assert encode(tokenizer, ["a b"], 64) is not None, "no longer the usual way: is it for nothing?"
    at_once = cut_windows(documents, tokenizer, max_tokens)
    monkeypatch.setattr("theodolite.sources.text.windows.encode", lambda *_: None)
    by_call = cut_windows(documents, tokenizer, max_tokens)
    assert len(at_once) == len(by_call)
    for ours, theirs in zip(at_once, by_call, strict=True):
        assert (ours.document, ours.number) == (theirs.document, theirs.number)
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.special.tolist() == theirs.special.tolist()
