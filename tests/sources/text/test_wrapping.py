"""BOS and EOS around every window where the tokenizer adds none: once, inside max_tokens, counted as units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import POSITIONS, load, sentences

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.sources.text.encoding import UNWRAPPED, Wrap, find_wrap
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import choose_window_length, cut_windows

END = "<|endoftext|>"
AROUND = {"bert": ("", ""), "roberta": ("", ""), "gpt2": (END, END), "llama": ("", "</s>")}  # what --wrap adds
WINDOW = {  # what a window then begins and ends with
    "bert": ("[CLS]", "[SEP]"),
    "roberta": ("<s>", "</s>"),
    "gpt2": (END, END),
    "llama": ("<s>", "</s>"),
}
TEXTS = [*sentences(8, seed=4), " ".join(sentences(9, seed=5)), "x", ""]


@pytest.mark.parametrize("family", AROUND)
def test_only_missing_special_tokens_are_added(small_model: Any, family: str) -> None:
    tokenizer = load(small_model(family))[1]
    wrap = find_wrap(tokenizer)
    assert (
        tuple("".join(tokenizer.convert_ids_to_tokens(list(side))) for side in (wrap.before, wrap.after))
        == (AROUND[family])
    )
    assert bool(wrap) == any(AROUND[family])


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("max_tokens", [5, POSITIONS])
@pytest.mark.parametrize("family", AROUND)
def test_every_window_is_wrapped_and_nothing_is_dropped(
    small_model: Any, family: str, max_tokens: int, words: bool
) -> None:
    tokenizer = load(small_model(family))[1]
    documents = list(enumerate(TEXTS))
    windows = cut_windows(documents, tokenizer, max_tokens, words=words, wrap=find_wrap(tokenizer))
    for number, text in documents:
        mine = [window for window in windows if window.document == number]
        assert mine  # blank documents too, as CLS and SEP do
        whole = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert np.concatenate([window.ids[~window.special] for window in mine]).tolist() == whole
        for window in mine:
            assert len(window) <= max_tokens
            first, last = tokenizer.convert_ids_to_tokens(window.ids[[0, -1]].tolist())
            assert (first, last) == WINDOW[family]
            assert window.special.tolist() == [True, *[False] * (len(window) - 2), True]
            if words:
                assert window.words is not None
                assert window.spans is not None
                assert window.words.shape == window.special.shape
                assert ((window.words < 0) == window.special).all()
                assert window.spans.shape == (len(window), 2)
        assert all(len(window) == max_tokens for window in mine[:-1])


@pytest.mark.parametrize("kind", ["id", "surface", "word"])
def test_states_and_units_are_those_of_the_wrapped_text(small_model: Any, kind: str) -> None:
    model, tokenizer = load(small_model("gpt2"))
    source = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[2], kind=kind, wrap=True)
    text = "the river was unbelievable, it's"
    kept: list[tuple[str, bool, torch.Tensor, bool]] = []

    def sink(batch: Batch) -> None:
        units = [source.units.known[code] for code in batch.places.unit.tolist()]
        for unit, state, first in zip(units, batch.states, batch.places.first.tolist(), strict=True):
            kept.append((unit.key, unit.special, state.clone(), first))

    for prepared in source.prepare([(0, text)]):
        source.run(prepared, sink)
    ids = torch.tensor([[0, *tokenizer(text)["input_ids"], 0]])
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True).hidden_states[2][0]
    ends = [(state, first) for key, special, state, first in kept if key == END]
    assert [first for _, first in ends].count(True) == 1
    for state, first in ends:
        assert state == pytest.approx(states[0 if first else -1], abs=1e-5)  # float32 in another batch
    assert {key for key, special, *_ in kept if special} == {END}
    assert len(ends) == 2
    if kind == "word":
        assert {key for key, *_ in kept} == {END, "the", "river", "was", "unbelievable", ",", "it", "'s"}
    else:
        assert len(kept) == ids.shape[1]


def test_wrapping_tokens_can_be_dropped_from_the_numbers(small_model: Any) -> None:
    model, tokenizer = load(small_model("gpt2"))
    source = TextSource(model, tokenizer, max_tokens=POSITIONS, wrap=True, drop_special=True)
    (prepared,) = source.prepare([(0, "the river")])
    assert prepared.positions == len(tokenizer("the river")["input_ids"])
    assert prepared.ids.shape[1] == prepared.positions + 2


def test_capacity_for_special_tokens_is_reserved(small_model: Any) -> None:
    model, tokenizer = load(small_model("gpt2"))
    wrap = find_wrap(tokenizer)
    assert choose_window_length(model.config, tokenizer, 3, wrap) == 3
    assert choose_window_length(model.config, tokenizer, 1) == 1
    with pytest.raises(
        InputError, match="--max-tokens 2 leaves no space for text: this tokenizer requires at least 3"
    ):
        choose_window_length(model.config, tokenizer, 2, wrap)
    assert choose_window_length(model.config, tokenizer, None, wrap) == POSITIONS


def test_a_single_special_token_is_used_for_both_ends_and_none_is_rejected(small_model: Any) -> None:
    tokenizer = load(small_model("gpt2"))[1]
    tokenizer.bos_token = None
    assert find_wrap(tokenizer) == Wrap((0,), (0,))
    tokenizer.eos_token = None
    with pytest.raises(InputError, match="--wrap requires a tokenizer with BOS or EOS"):
        find_wrap(tokenizer)
    assert not UNWRAPPED
