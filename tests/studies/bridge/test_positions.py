"""Which positions of two models are matched, against transformers' own states and offsets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.small_models import load, sentences

from theodolite.errors import InputError
from theodolite.studies.bridge.positions import (
    CHUNK,
    PLACES,
    Piece,
    PositionReader,
    choose_match,
    cut_pieces,
    have_same_tokens,
)
from theodolite.studies.text_model import TextModel

TEXTS = sentences(6, seed=5)
BATCHED = 2e-5
"""Texts are read alone in the oracle and in a padded batch here: float32 rounding."""


def make_reader(folder: Path, match: str, **options: object) -> PositionReader:
    settings = {"layers": "-1", "max_tokens": 16, **options}
    return PositionReader(TextModel(*load(folder), {}), match=match, **settings)  # type: ignore[arg-type]


def last_states(folder: Path, text: str, max_tokens: int) -> list[tuple[tuple[int, int], bool, np.ndarray]]:
    """Return (span, special, state) of every token, window by window, with the tokenizer's own offsets."""
    model, tokenizer = load(folder)
    found = []
    encoded = tokenizer(
        text,
        truncation=True,
        max_length=max_tokens,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    for ids, spans, special in zip(
        encoded["input_ids"], encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True
    ):
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
        found += [(tuple(s), bool(x), v) for s, x, v in zip(spans, special, states, strict=True)]
    return found


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_words_are_means_of_the_tokens_that_begin_in_them(family: str, small_model: Callable[[str], Path]) -> None:
    reader = make_reader(small_model(family), "word", sinks=True)
    found = reader.read([Piece(n, 0, text, group=1) for n, text in enumerate(TEXTS)])
    states = found.states[reader.layers[-1].index].numpy()
    rows = 0
    for number, text in enumerate(TEXTS):
        tokens = last_states(small_model(family), text, 16)
        at = 0
        for place, word in enumerate(text.split()):
            begin = text.index(word, at)
            at = begin + len(word)
            # a token may cover the space before its word
            members = [
                v
                for (start, end), special, v in tokens
                if not special
                and text[start:end].strip()
                and begin <= start + len(text[start:end]) - len(text[start:end].lstrip()) < at
            ]
            row = np.flatnonzero(found.keys == number * PLACES + place)
            assert len(row) == 1
            np.testing.assert_allclose(states[row[0]], np.mean(members, axis=0), rtol=BATCHED, atol=BATCHED)
            rows += 1
    assert rows == len(found.keys)


def test_tokens_are_numbered_over_windows_without_special_ones(small_model: Callable[[str], Path]) -> None:
    reader = make_reader(small_model("bert"), "token", sinks=True)
    found = reader.read([Piece(n, 0, text, group=1) for n, text in enumerate(TEXTS)])
    expected = [[v for _, special, v in last_states(small_model("bert"), t, 16) if not special] for t in TEXTS]
    assert max(map(len, expected)) > 14  # some text has several windows
    np.testing.assert_array_equal(
        found.keys, [n * PLACES + place for n, states in enumerate(expected) for place in range(len(states))]
    )
    states = found.states[reader.layers[-1].index]
    np.testing.assert_allclose(states, np.concatenate(expected), rtol=BATCHED, atol=BATCHED)


def test_a_document_is_the_mean_of_all_tokens(small_model: Callable[[str], Path]) -> None:
    reader = make_reader(small_model("bert"), "document", sinks=True)
    found = reader.read([Piece(n, 0, text, group=1) for n, text in enumerate(TEXTS)])
    expected = [np.mean([v for *_, v in last_states(small_model("bert"), text, 16)], axis=0) for text in TEXTS]
    np.testing.assert_allclose(found.states[reader.layers[-1].index], expected, rtol=BATCHED, atol=BATCHED)


def test_sinks_are_left_out_and_counted(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("gpt2"))
    with torch.no_grad():
        token = tokenizer(TEXTS[0])["input_ids"][2]
        model.wte.weight[token] *= 1000
    pieces = [Piece(n, 0, text, group=1) for n, text in enumerate(TEXTS)]
    options = {"match": "token", "layers": None, "max_tokens": 64}
    loaded = TextModel(model, tokenizer, {})
    every = PositionReader(loaded, sinks=True, **options)  # type: ignore[arg-type]
    without = PositionReader(loaded, **options)  # type: ignore[arg-type]
    kept, total = without.read(pieces), every.read(pieces)
    planted = sum(tokenizer(text)["input_ids"].count(token) for text in TEXTS)
    assert without.counts == {"read": len(total.keys), "sinks": planted, "nonfinite": 0}
    assert len(kept.keys) == len(total.keys) - planted
    assert 2 not in kept.keys


def test_a_text_without_tokens_has_no_positions(small_model: Callable[[str], Path]) -> None:
    reader = make_reader(small_model("bert"), "token")
    found = reader.read([Piece(0, 0, "\u200b", group=1)])
    assert len(found.keys) == 0
    assert found.states[reader.layers[-1].index].shape == (0, reader.layers[-1].dim)
    assert len(reader.read([Piece(0, 0, TEXTS[0], group=1)]).keys) > 0


def test_long_documents_are_cut_and_stay_on_one_side() -> None:
    text = "word " * (CHUNK // 2)
    pieces = [piece for chunk in cut_pieces([(0, text), (1, "x" * (CHUNK + 1)), (2, text)]) for piece in chunk]
    assert "".join(piece.text for piece in pieces if piece.document == 0) == text
    assert "".join(piece.text for piece in pieces if piece.document == 1) == "x" * (CHUNK + 1)
    assert max(len(piece.text) for piece in pieces) <= CHUNK
    sides = {n: {piece.held for piece in pieces if piece.document == n} for n in range(3)}
    assert all(len(held) == 1 for held in sides.values())
    assert sides[0] == sides[2]  # equal texts
    assert len([p for chunk in cut_pieces([(0, text)], whole=True) for p in chunk]) == 1


def test_a_fifth_of_the_documents_is_held_out() -> None:
    pieces = [p for chunk in cut_pieces(enumerate(map(str, range(2000)))) for p in chunk]
    assert np.mean([piece.held for piece in pieces]) == pytest.approx(0.2, abs=4 * (0.16 / 2000) ** 0.5)


def test_tokenizers_decide_how_positions_are_matched(small_model: Callable[[str], Path]) -> None:
    from transformers import ByT5Tokenizer

    bert, gpt2 = (load(small_model(family))[1] for family in ("bert", "gpt2"))
    slow = ByT5Tokenizer()
    assert have_same_tokens(bert, load(small_model("bert"))[1])
    assert choose_match("auto", [bert, bert])[0] == "token"
    assert choose_match("auto", [bert, gpt2])[0] == "word"
    match, said = choose_match("auto", [bert, slow])
    assert (match, "mean of its tokens" in said) == ("document", True)
    with pytest.raises(InputError, match="--match token requires models with the same tokenizer"):
        choose_match("token", [bert, gpt2])
    with pytest.raises(InputError, match="ByT5Tokenizer does not say which characters"):
        choose_match("word", [bert, slow])
    with pytest.raises(InputError, match=r"--match 'words' is not one of .* Did you mean 'word'"):
        choose_match("words", [bert, bert])
