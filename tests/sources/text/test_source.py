"""The text source hands over every counted position once, and padding has no effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import FAMILIES, POSITIONS, load, sentences

from theodolite.batch import Batch
from theodolite.sources.text.source import TextSource

DOCUMENTS = list(enumerate([*sentences(20, seed=6), " ".join(sentences(5, seed=7)), "x"]))
# A forward pass is not batch-invariant: another shape takes another order of summation, so float32 states of a
# few blocks differ by about 1e-6 of their norm. Padding that reaches them moves them by 0.1 and more.
TOLERANCE = 1e-5


def taken(source: TextSource, documents: list[tuple[int, str]]) -> dict[int, dict[int, torch.Tensor]]:
    """Return every state by layer and key; a key met twice would be a position counted twice."""
    kept: dict[int, dict[int, torch.Tensor]] = {layer.index: {} for layer in source.layers}

    def sink(batch: Batch) -> None:
        assert len(batch.states) == len(batch.places)
        for key, state in zip(batch.places.key.tolist(), batch.states, strict=True):
            assert key not in kept[batch.layer]
            kept[batch.layer][key] = state.clone()

    for prepared in source.prepare(documents):
        source.run(prepared, sink)
    return kept


def assert_same(one: dict[int, dict[int, torch.Tensor]], other: dict[int, dict[int, torch.Tensor]]) -> None:
    for layer, states in one.items():
        assert states.keys() == other[layer].keys()
        for key, state in states.items():
            assert (state - other[layer][key]).norm() <= TOLERANCE * state.norm(), layer


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_has_no_effect(small_model: Any, family: str) -> None:
    source = TextSource(*load(small_model(family)), max_tokens=POSITIONS, batch_tokens=4096)
    batches = source.prepare(DOCUMENTS)
    assert sum(int((batch.mask == 0).sum()) for batch in batches) > 200  # there is padding to speak of
    together = taken(source, DOCUMENTS)
    alone: dict[int, dict[int, torch.Tensor]] = {layer.index: {} for layer in source.layers}
    for document in DOCUMENTS:
        for layer, states in taken(source, [document]).items():
            alone[layer] |= states
    assert_same(together, alone)


@pytest.mark.parametrize("family", FAMILIES)
def test_pad_rows_never_reach_the_sink(small_model: Any, family: str) -> None:
    source = TextSource(*load(small_model(family)), max_tokens=POSITIONS, batch_tokens=4096)
    for batch in source.prepare(DOCUMENTS):
        assert batch.positions == int(batch.mask.sum())
        assert batch.mask.flatten()[batch.rows].all()
        assert len(batch.rows.unique()) == len(batch.rows)
        # Padded on the right: a window's mask never rises.
        assert (batch.mask.diff(dim=1) <= 0).all()


def test_the_pad_id_is_the_models_own(small_model: Any) -> None:
    # RoBERTa finds positions by it; GPT-2 and Llama have none, and any will do under the mask.
    pads = {family: TextSource(*load(small_model(family)))._pad for family in FAMILIES}
    assert pads == {"bert": 0, "roberta": 1, "gpt2": 0, "llama": 0}


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_padding_on_the_left_would_change_states(small_model: Any, family: str) -> None:
    # The tempting wrong way, which generation in batches needs: positions then begin with the padding.
    source = TextSource(*load(small_model(family)), max_tokens=POSITIONS)
    last, moved = len(source.anatomy.blocks), 0.0
    for batch in source.prepare(DOCUMENTS):
        lengths, width = batch.mask.sum(1), batch.mask.shape[1]
        left = torch.stack([row.roll(int(width - n)) for row, n in zip(batch.ids, lengths, strict=True)])
        right: list[torch.Tensor] = []
        for ids, mask in ((batch.ids, batch.mask), (left, batch.mask.flip(1))):
            with source.anatomy.hook_layers(lambda i, s, right=right: right.append(s.clone()), [last]) as forward:
                forward(input_ids=ids, attention_mask=mask)
        shifted = batch.rows + (width - lengths)[batch.rows // width]
        one, other = right[0].flatten(0, 1)[batch.rows], right[1].flatten(0, 1)[shifted]
        moved = max(moved, float(((one - other).norm(dim=1) / one.norm(dim=1)).max()))
    assert moved > 0.1


def test_a_model_that_mixes_padding_in_runs_unpadded() -> None:
    from tests.small_models import TOKENIZERS
    from transformers import FNetConfig, FNetModel

    torch.manual_seed(0)
    tokenizer = TOKENIZERS["bert"]()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "initializer_range": 0.3}
    model = FNetModel(FNetConfig(vocab_size=len(tokenizer), pad_token_id=0, **sizes)).eval()
    source = TextSource(model, tokenizer, max_tokens=POSITIONS)
    assert all(bool(batch.mask.all()) for batch in source.prepare(DOCUMENTS))
    alone: dict[int, dict[int, torch.Tensor]] = {layer.index: {} for layer in source.layers}
    for document in DOCUMENTS:
        for layer, states in taken(source, [document]).items():
            alone[layer] |= states
    assert_same(taken(source, DOCUMENTS), alone)


def test_places_depend_on_the_position_of_a_row_only(small_model: Any) -> None:
    model, tokenizer = load(small_model("bert"))
    narrow = TextSource(model, tokenizer, max_tokens=32, batch_tokens=64, corpus_key=5)
    wide = TextSource(model, tokenizer, max_tokens=32, batch_tokens=4096, corpus_key=5)

    def rows(source: TextSource) -> set[tuple[int, ...]]:
        return {
            row
            for batch in source.prepare(DOCUMENTS)
            for row in zip(
                batch.places.key.tolist(),
                batch.places.unit.tolist(),
                batch.places.group.tolist(),
                batch.places.first.tolist(),
                batch.places.context.tolist(),
                strict=True,
            )
        }

    assert rows(narrow) == rows(wide)
    other = TextSource(model, tokenizer, max_tokens=32, corpus_key=6)
    assert not {row[0] for row in rows(other)} & {row[0] for row in rows(wide)}


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_contexts_have_equal_states(small_model: Any, family: str) -> None:
    # "in causal models, states of equal left context, which differ only by rounding"
    documents = [(0, "the river was high."), (1, "the river was low!"), (2, "the river was high.")]
    source = TextSource(*load(small_model(family)), max_tokens=POSITIONS)
    (batch,) = source.prepare(documents)
    states: list[torch.Tensor] = []
    source.run(batch, lambda b: states.append(b.states))
    by_context: dict[int, list[torch.Tensor]] = {}
    for context, state in zip(batch.places.context.tolist(), states[-1], strict=True):
        by_context.setdefault(context, []).append(state)
    repeated = [group for group in by_context.values() if len(group) > 1]
    assert all((group[0] - state).norm() <= TOLERANCE * state.norm() for group in repeated for state in group)
    shared = sum(len(group) - 1 for group in by_context.values())
    tokens = [len(source.tokenizer(text)["input_ids"]) for _, text in documents]
    if source.anatomy.causal:
        assert shared > tokens[2]  # the whole third document, and the beginning of the second
    else:
        assert shared == tokens[2]


def test_first_is_position_0_of_every_window(small_model: Any) -> None:
    source = TextSource(*load(small_model("gpt2")), max_tokens=8)
    text = " ".join(sentences(3, seed=8))
    batches = source.prepare([(0, text)])
    count = len(source.tokenizer(text)["input_ids"])
    assert sum(int(batch.places.first.sum()) for batch in batches) == int(np.ceil(count / 8))
