"""What tokenizers lose is named: unknown words, capitals, sentences that become the same tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.small_models import load

import theodolite
from theodolite.studies.tokenization import equal_sentence_warnings, find_lost_capitals, find_unknown_words

UNKNOWN = "☃☃"  # not in the vocabulary of the small BERT


def test_words_are_named(small_model: Callable[[str], Path]) -> None:
    tokenizer = load(small_model("bert"))[1]
    texts = [f"The river {UNKNOWN}, was.", "In the US it was Mountain."]
    assert find_unknown_words(tokenizer, texts) == [UNKNOWN]
    assert find_lost_capitals(tokenizer, texts) == ["US", "Mountain"]  # not The and In, which begin sentences
    cased = load(small_model("gpt2"))[1]
    assert find_unknown_words(cased, texts) == find_lost_capitals(cased, texts) == []
    (warning,) = equal_sentence_warnings(tokenizer, ["The US", "a river", "the us"])
    assert "equal token ids" in warning
    assert "'The US' and 'the us'" in warning


def test_contrast_names_them(small_model: Callable[[str], Path]) -> None:
    pairs = {
        "case": [["the US", "the us"], ["the river", "a river"]],
        "other": [[UNKNOWN, "a river"], ["it", "is"]],
    }
    found = theodolite.contrast(small_model("bert"), pairs, layers="-1", random_swaps=0)
    warnings = "\n".join(found.facts["warnings"])
    assert "1 of 4 pairs have equal token ids, so their difference is 0: case: 'the US' and 'the us'." in warnings
    assert f"read as [UNK]: {UNKNOWN}." in warnings
    assert "lose their capitals: US." in warnings
    assert found.tables["pairs"]["ids_equal"].tolist() == [True, False, False, False]


def test_groups_and_trace_name_them(small_model: Callable[[str], Path]) -> None:
    texts = ["the US", "the us", f"a {UNKNOWN}"]
    groups = theodolite.groups(small_model("bert"), {"a": texts, "b": ["a river", "it is"]}, permutations=9)
    trace = theodolite.trace(small_model("bert"), texts)
    for found in (groups, trace):
        warnings = "\n".join(found.facts["warnings"])
        assert "'the US' and 'the us'" in warnings
        assert f"read as [UNK]: {UNKNOWN}." in warnings
        assert "lose their capitals: US." in warnings
