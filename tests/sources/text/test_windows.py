"""Windows hold every token once, each with its special tokens; buckets hold every window once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import FACTS, FAMILIES, POSITIONS, load, sentences

from theodolite.errors import InputError
from theodolite.sources.text.windows import Window, choose_window_length, cut_windows, group_by_length

DOCUMENTS = [*sentences(30, seed=4), " ".join(sentences(12, seed=5)), "x", "🙂" * 90, "one\n\ntwo\tthree   four "]


def special_ids(tokenizer: Any, names: tuple[str, ...]) -> list[int]:
    return tokenizer.convert_tokens_to_ids(list(names))  # type: ignore[no-any-return]


@pytest.mark.parametrize("max_tokens", [5, 16, POSITIONS])
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_dropped(small_model: Any, family: str, max_tokens: int) -> None:
    tokenizer, facts = load(small_model(family))[1], FACTS[family]
    before, after = special_ids(tokenizer, facts.before), special_ids(tokenizer, facts.after)
    windows = cut_windows(list(enumerate(DOCUMENTS)), tokenizer, max_tokens)
    for number, text in enumerate(DOCUMENTS):
        mine = [window for window in windows if window.document == number]
        assert [window.number for window in mine] == list(range(len(mine)))
        whole = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert np.concatenate([window.ids[~window.special] for window in mine]).tolist() == whole
        for window in mine:
            assert len(window) <= max_tokens
            assert window.ids[window.special].tolist() == before + after
            assert window.ids[: len(before)].tolist() == before
            assert window.ids[len(window) - len(after) :].tolist() == after
        assert all(len(window) == max_tokens for window in mine[:-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_that_pads_and_truncates_by_itself_does_not(small_model: Any, family: str) -> None:
    # all-MiniLM's tokenizer.json says "truncate to 128, pad to 128"; followed, it would lose text.
    tokenizer = load(small_model(family))[1]
    plain = cut_windows(list(enumerate(DOCUMENTS)), tokenizer, 16)
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=32)
    again = cut_windows(list(enumerate(DOCUMENTS)), tokenizer, 16)
    assert [window.ids.tolist() for window in again] == [window.ids.tolist() for window in plain]


@pytest.mark.parametrize("family", FAMILIES)
def test_blank_documents_have_special_tokens_only(small_model: Any, family: str) -> None:
    tokenizer, facts = load(small_model(family))[1], FACTS[family]
    windows = cut_windows([(7, ""), (8, "word")], tokenizer, 16)
    wrapped = bool(facts.before + facts.after)
    assert [window.document for window in windows] == ([7, 8] if wrapped else [8])
    if wrapped:
        assert windows[0].special.all()
    assert cut_windows([], tokenizer, 16) == []


@pytest.mark.parametrize("text", ["a\ud800b", "\udc00", "x \ud83d\ude42 y", "\ud800\ud800", "ok"])
@pytest.mark.parametrize("family", FAMILIES)
def test_lone_surrogates_are_accepted(small_model: Any, family: str, text: str) -> None:
    tokenizer = load(small_model(family))[1]
    readable = text.replace("\ud83d\ude42", "🙂").encode("utf-8", "replace").decode().replace("?", "\ufffd")
    expected = tokenizer(readable)["input_ids"]
    assert [window.ids.tolist() for window in cut_windows([(0, text)], tokenizer, POSITIONS)] == [expected]


def window(length: int, document: int = 0) -> Window:
    return Window(document, 0, np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.bool_))


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 200), st.sampled_from([0, 20, 40]))
def test_buckets(lengths: list[int], budget: int, longest_padded: int) -> None:
    windows = [window(length, number) for number, length in enumerate(lengths)]
    groups = group_by_length(windows, budget, longest_padded)
    assert sorted(w.document for group in groups for w in group) == list(range(len(lengths)))
    for group in groups:
        padded = len(group) * max(map(len, group))
        assert len(group) == 1 or padded <= budget
        assert padded - sum(map(len, group)) <= budget // 16
        assert max(map(len, group)) <= longest_padded or len(set(map(len, group))) == 1
    again = group_by_length(windows, budget, longest_padded)
    assert [[w.document for w in group] for group in again] == [[w.document for w in group] for group in groups]


class TestLongestWindow:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_is_the_models_limit(self, small_model: Any, family: str) -> None:
        model, tokenizer = load(small_model(family))
        assert choose_window_length(model.config, tokenizer, None) == POSITIONS

    def test_roberta_counts_positions_from_its_pad_id(self, small_model: Any) -> None:
        model, tokenizer = load(small_model("roberta"))
        assert model.config.max_position_embeddings == POSITIONS + 2
        tokenizer.model_max_length = 10**30  # many tokenizers have no limit
        assert choose_window_length(model.config, tokenizer, None) == POSITIONS
        with pytest.raises(
            InputError, match=f"--max-tokens {POSITIONS + 1} exceeds the limit of this model .{POSITIONS}"
        ):
            choose_window_length(model.config, tokenizer, POSITIONS + 1)

    def test_is_512_by_default(self, small_model: Any) -> None:
        tokenizer = load(small_model("gpt2"))[1]
        config = SimpleNamespace(max_position_embeddings=4096, pad_token_id=None, model_type="llama")
        assert choose_window_length(config, tokenizer, None) == 512
        assert choose_window_length(config, tokenizer, 4096) == 4096
        assert choose_window_length(SimpleNamespace(model_type="bloom"), tokenizer, 100_000) == 100_000

    def test_must_leave_capacity_for_text(self, small_model: Any) -> None:
        model, tokenizer = load(small_model("bert"))
        assert choose_window_length(model.config, tokenizer, 3) == 3
        with pytest.raises(
            InputError, match="--max-tokens 2 leaves no space for text: this tokenizer requires at least 3"
        ):
            choose_window_length(model.config, tokenizer, 2)
