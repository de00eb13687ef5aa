"""Cleaned words: what the model reads instead of the text, and what is omitted."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import POSITIONS, load

from theodolite.errors import InputError
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.units import clean_text

LETTERS = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "No"}


def naive(text: str) -> str:
    """The definition, character by character."""
    words, word = [], ""
    for character in [*text.lower(), " "]:
        if unicodedata.category(character) in LETTERS:
            word += character
        else:
            words.append(word)
            word = ""
    return " ".join(word for word in words if 2 <= len(word) <= 15)


@given(st.text(st.characters(categories=["L", "P", "N", "S", "Z", "Cc", "M"])))
def test_words_are_runs_of_letters(text: str) -> None:
    assert clean_text(text) == naive(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't half-way re-measured", "don half way re measured"),
        ("“Übermut”—naïve… ¿qué?", "übermut naïve qué"),
        ("I saw 3.14 and x2 a_b __init__", "saw and init"),
        ("a" * 15 + " " + "b" * 16, "a" * 15),
        ("東京, 측량! 🙂", "東京 측량"),
        ("  two \n\n words\t", "two words"),
    ],
)
def test_examples(text: str, words: str) -> None:
    assert clean_text(text) == words


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_model_reads_them_and_nothing_else(small_model: Any, family: str) -> None:
    model, tokenizer = load(small_model(family))
    source = TextSource(model, tokenizer, max_tokens=POSITIONS, kind="word", clean_words=True)
    windows, texts = source.windows([(3, "The river—1,024 it's!"), (4, "?!"), (5, "\ud83d\ude42 on")])
    assert texts == {3: "the river it", 5: "on"}  # a document without words is skipped
    assert [window.document for window in windows] == [3, 5]
    assert windows[0].ids.tolist() == tokenizer("the river it")["input_ids"]
    source.prepare([(3, "The river—1,024 it's!"), (4, "?!")])
    assert {unit.key for unit in source.units.known if not unit.special} == {"the", "river", "it"}
    assert source.prepare([(4, "?!")]) == []


def test_only_words_can_be_cleaned(small_model: Any) -> None:
    with pytest.raises(InputError, match=r"--clean-words requires --units word \(got surface\)"):
        TextSource(*load(small_model("bert")), kind="surface", clean_words=True)
