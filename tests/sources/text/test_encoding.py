"""Many texts encoded as one against the tokenizer's own call, text by text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import FAMILIES, load, sentences

from theodolite.sources.text import encoding
from theodolite.sources.text.encoding import Wrap, encode
from theodolite.sources.text.windows import PADDING, WindowArrays, padded_bounds

ODD = ["", " ", "a", "🙂" * 90, "one\n\ntwo\tthree   four ", "  in front", "é è ñ", "\u3000", "x" * 9000, "b"]
TEXTS = [*sentences(60, seed=4), *ODD, " ".join(sentences(300, seed=5)), *sentences(9, seed=6)]
"""Several are longer than what is encoded as one, so that one and two make a group."""


def by_call(tokenizer: Any, texts: list[str], most: int) -> tuple[list[list[int]], list[list[bool]], list[int]]:
    """Ids, special tokens and texts of the windows that the tokenizer's call gives."""
    call = tokenizer(
        texts,
        truncation=True,
        max_length=most,
        return_overflowing_tokens=True,
        return_special_tokens_mask=True,
    )
    special = [[bool(mark) for mark in row] for row in call["special_tokens_mask"]]
    return call["input_ids"], special, call["overflow_to_sample_mapping"]


def assert_same(tokenizer: Any, texts: list[str], most: int) -> None:
    ids, special, text = by_call(tokenizer, texts, most)
    found = encode(tokenizer, texts, most)
    assert found is not None
    assert found.lengths.tolist() == [len(row) for row in ids]
    assert found.ids.tolist() == [code for row in ids for code in row]
    assert found.special.tolist() == [mark for row in special for mark in row]
    assert found.text.tolist() == text


def assert_same_in_both_ways(tokenizer: Any, texts: list[str], most: int, monkeypatch: Any) -> None:
    assert_same(tokenizer, texts, most)
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "MARKS", ())
        assert_same(tokenizer, texts, most)


@pytest.mark.parametrize("most", [5, 64, 10_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_as_the_tokenizer_s_own_call(
    small_model: Any, family: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same_in_both_ways(load(small_model(family))[1], TEXTS, most, monkeypatch)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_texts_that_spell_special_tokens(
    small_model: Any, family: str, split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load(small_model(family))[1]
    tokenizer.split_special_tokens = split
    spelled = [f"a {token} b{token}" for token in tokenizer.all_special_tokens]
    assert_same_in_both_ways(
        tokenizer, [*TEXTS[:9], *spelled, *tokenizer.all_special_tokens, "c"], 16, monkeypatch
    )


def test_a_text_that_spells_the_separator_is_not_cut(small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load(small_model("bert"))[1]
    calls: list[int] = []
    slower = encoding._encode_by_word
    monkeypatch.setattr(encoding, "_encode_by_word", lambda *given: calls.append(1) or slower(*given))
    assert_same(tokenizer, ["a b", "c d"], 16)
    assert not calls
    mark = encoding._find_separator(tokenizer)
    assert mark is not None
    assert_same(tokenizer, ["a b", f"c {mark[0]} d"], 16)
    assert calls


def test_the_tokenizer_determines_the_special_tokens_of_a_window(small_model: Any) -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer = load(small_model("bert"))[1]
    backend = tokenizer.backend_tokenizer
    special = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = TemplateProcessing(single="[CLS] [CLS] $A [SEP]", special_tokens=special)
    assert_same(tokenizer, TEXTS, 16)
    backend.post_processor = TemplateProcessing(single="$A", special_tokens=special)
    assert_same(tokenizer, ["a b", "", "c d e f g"], 3)


def test_a_unigram_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """T5's kind: pieces by likelihood, a mark for spaces, unknown characters."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [(letter, -6.0) for letter in "abcdefghijklmnopqrstuvwxyzT.▁"]
    pieces = [
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        *letters,
        ("▁the", -2.0),
        ("▁of", -2.5),
        ("ing", -3.0),
    ]
    backend = Tokenizer(models.Unigram(pieces, unk_id=2))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    assert_same_in_both_ways(PreTrainedTokenizerFast(tokenizer_object=backend, **names), TEXTS, 16, monkeypatch)


def test_one_special_token_for_everything_still_marks(small_model: Any) -> None:
    tokenizer = load(small_model("gpt2"))[1]
    assert tokenizer.unk_token == tokenizer.eos_token
    assert encoding._find_separator(tokenizer) == (tokenizer.eos_token, tokenizer.eos_token_id)


def test_a_tokenizer_that_truncates_on_the_left_is_called_directly(small_model: Any) -> None:
    tokenizer = load(small_model("bert"))[1]
    assert encode(tokenizer, ["a"], 16) is not None
    tokenizer.truncation_side = "left"
    assert encode(tokenizer, ["a"], 16) is None


def test_a_window_without_capacity_is_left_to_the_tokenizer(small_model: Any) -> None:
    assert encode(load(small_model("bert"))[1], ["a"], 2) is None


def test_wrapping_goes_around_what_the_tokenizer_adds(small_model: Any) -> None:
    tokenizer = load(small_model("bert"))[1]
    bare, wrapped = encode(tokenizer, TEXTS, 14), encode(tokenizer, TEXTS, 16, Wrap((7,), (8,)))
    assert bare is not None
    assert wrapped is not None
    ends = np.cumsum(wrapped.lengths)
    assert (wrapped.ids[ends - wrapped.lengths] == 7).all()
    assert (wrapped.ids[ends - 1] == 8).all()
    added = np.zeros(len(wrapped.ids), dtype=np.bool_)
    added[ends - 1] = added[ends - wrapped.lengths] = True
    assert wrapped.special[added].all()
    assert wrapped.ids[~added].tolist() == bare.ids.tolist()
    assert wrapped.special[~added].tolist() == bare.special.tolist()


def test_threads_may_encode_at_once(small_model: Any) -> None:
    tokenizer = load(small_model("bert"))[1]
    tokenizer.backend_tokenizer.enable_truncation(8)  # so that there is something to set
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda most: encode(tokenizer, TEXTS, most), [16, 64] * 4))
    for one, most in zip(found, [16, 64] * 4, strict=True):
        again = encode(tokenizer, TEXTS, most)
        assert one is not None
        assert again is not None
        assert one.ids.tolist() == again.ids.tolist()


def greedy(lengths: list[int], budget: int, longest_padded: int) -> list[list[int]]:
    """The definition of the buckets: one window after the other."""
    groups: list[list[int]] = []
    for length in sorted(lengths):
        last = groups[-1] if groups else []
        padded = (len(last) + 1) * length
        fits = bool(last) and (length <= longest_padded or last[0] == length) and padded <= budget
        if fits and padded - sum(last) - length <= budget // PADDING:
            last.append(length)
        else:
            groups.append([length])
    return groups


@given(st.lists(st.integers(1, 40), max_size=80), st.integers(1, 400), st.sampled_from([0, 20, 40]))
def test_bucket_bounds_equal_those_of_single_windows(lengths: list[int], budget: int, longest_padded: int) -> None:
    ordered = np.sort(np.array(lengths, dtype=np.int64))
    bounds = padded_bounds(ordered, budget, longest_padded)
    assert [ordered[start:stop].tolist() for start, stop in bounds] == greedy(lengths, budget, longest_padded)


@given(st.lists(st.integers(0, 5), max_size=20), st.data())
def test_windows_from_flat_arrays(lengths: list[int], data: st.DataObject) -> None:
    sizes = np.array(lengths, dtype=np.int64)
    tokens, windows = np.arange(sizes.sum()), np.arange(len(sizes))
    flat = WindowArrays(tokens, tokens % 3 == 0, sizes, windows + 100, windows % 4)
    which = data.draw(st.lists(st.integers(0, len(sizes) - 1))) if lengths else []
    taken = flat.take(np.array(which, dtype=np.int64))
    apart = np.split(tokens, np.cumsum(sizes)[:-1]) if lengths else []
    assert taken.ids.tolist() == [token for window in which for token in apart[window].tolist()]
    assert (taken.special == (taken.ids % 3 == 0)).all()
    assert taken.names() == tuple((window + 100, window % 4) for window in which)
    half = len(taken) // 2
    first, second = taken.split([(0, half), (half, len(taken))])
    assert [*first.ids, *second.ids] == taken.ids.tolist()
    assert first.names() + second.names() == taken.names()
    assert len(first) == half


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_threads_that_share_a_call_change_nothing(
    small_model: Any, family: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_SHARED", None)
    monkeypatch.setattr(encoding, "_SETTING", encoding._SETTING)
    tokenizer = load(small_model(family))[1]
    mark = encoding._find_separator(tokenizer)
    assert mark is not None
    encoding.use_threads(threads)
    assert encoding._SHARED is not None
    try:
        for texts in (TEXTS, [*TEXTS, f"here {mark[0]} it is"], ["", ""], ["x" * 9000, ""], ["a"]):
            assert_same_in_both_ways(tokenizer, texts, 64, monkeypatch)
    finally:
        encoding._SHARED[0].shutdown()


def test_slices_are_even_and_complete() -> None:
    sizes = np.array([5, 1, 1, 1, 1, 1, 40, 0, 3, 7])
    groups = [[str(at)] for at in range(len(sizes))]
    for most in (1, 2, 4, 10, 50):
        slices = encoding._split_groups(groups, sizes, most)
        assert [group for part in slices for group in part] == groups
        assert len(slices) <= most
        assert all(slices)
    even = encoding._split_groups(groups, np.full(10, 8), 5)
    assert [len(part) for part in even] == [2, 2, 2, 2, 2]
