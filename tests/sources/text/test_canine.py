"""CANINE: characters, then every fourth of them, which is of no unit, then characters again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.encoder_decoders import canine
from tests.small_models import POSITIONS

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.sources.text.source import TextSource

DOCUMENTS = [(0, "The cat sat on the mät 東京 🙂, and slept."), (1, "no"), (2, "a river"), (3, "no")]


@pytest.fixture(scope="module")
def source() -> TextSource:
    return TextSource(*canine(), max_tokens=POSITIONS)  # one for all: the vocabulary is all of Unicode


def taken(source: TextSource, documents: list[tuple[int, str]]) -> dict[int, list[Batch]]:
    kept: dict[int, list[Batch]] = {layer.index: [] for layer in source.layers}
    for prepared in source.prepare(documents):
        source.run(prepared, lambda batch: kept[batch.layer].append(batch))
    return kept


def test_layers(source: TextSource) -> None:
    names = ["characters embeddings", "characters block 1", "downsampled embeddings"]
    names += [f"downsampled block {number}" for number in (1, 2, 3)]
    names += ["final characters embeddings", "final characters block 1"]
    assert [layer.name for layer in source.layers] == names
    assert [layer.library_index for layer in source.layers] == list(range(8))
    assert [layer.name for layer in source.layers if not layer.units] == names[2:6]


@pytest.mark.parametrize("document", DOCUMENTS[:3])
def test_states_and_units_are_those_of_transformers(source: TextSource, document: tuple[int, str]) -> None:
    model: Any = source.anatomy.model
    encoded = source.tokenizer(document[1], return_tensors="pt")
    with torch.no_grad():
        library = model(**encoded, output_hidden_states=True).hidden_states
    ids = encoded["input_ids"][0]
    assert ids.tolist() == [0xE000, *map(ord, document[1]), 0xE001]
    (prepared,) = source.prepare([document])
    for layer, (batch,) in taken(source, [document]).items():
        info = source.layers[layer]
        theirs = library[info.library_index][0]
        if info.units:
            assert torch.equal(batch.states, theirs[prepared.rows]), info.name
            assert [source.units.known[code].id for code in batch.places.unit] == ids[prepared.rows].tolist()
            assert len(batch.states) == len(ids)
        else:  # rows of its own length, in their order
            assert torch.equal(batch.states, theirs), info.name
            assert len(batch.states) == len(ids) // 4
        assert int(batch.places.first.sum()) == 1
        assert len(batch.places.key.unique()) == len(batch.states)


def test_documents_of_one_length_in_a_batch_equal_single_ones(source: TextSource) -> None:
    # Four characters become one state, so padding would be mixed in: windows of one length only.
    assert not source.anatomy.pads
    assert all(bool(prepared.mask.all()) for prepared in source.prepare(DOCUMENTS))
    assert [len(prepared.windows) for prepared in source.prepare(DOCUMENTS)] == [2, 1, 1]
    together = taken(source, DOCUMENTS)
    for document in DOCUMENTS:
        for layer, batches in taken(source, [document]).items():
            everywhere = {
                key: state
                for batch in together[layer]
                for key, state in zip(batch.places.key.tolist(), batch.states, strict=True)
            }
            for batch in batches:
                for key, state in zip(batch.places.key.tolist(), batch.states, strict=True):
                    assert (everywhere[key] - state).norm() <= 1e-5 * state.norm()  # another order of summation


def test_padding_would_change_the_states(source: TextSource) -> None:
    model: Any = source.anatomy.model
    both = source.tokenizer(["a river", "a river that is much longer"], padding=True, return_tensors="pt")
    alone = source.tokenizer(["a river"], return_tensors="pt")
    with torch.no_grad():
        padded = model(**both).last_hidden_state[0, : alone["input_ids"].shape[1]]
        plain = model(**alone).last_hidden_state[0]
    assert ((padded - plain).norm(dim=1) / plain.norm(dim=1)).max() > 0.01


def test_documents_shorter_than_one_downsampled_state_are_skipped(source: TextSource) -> None:
    assert source.prepare([(0, ""), (1, "x")]) == []  # [CLS] [SEP], [CLS] x [SEP]
    assert len(source.prepare([(0, ""), (1, "xy")])) == 1


def test_long_documents_are_cut(source: TextSource) -> None:
    text = "The cat sat on the mat. " * 10
    windows, _ = source.windows([(0, text)])
    assert "".join(chr(i) for window in windows for i in window.ids[~window.special]) == text
    assert all(len(window) <= POSITIONS for window in windows)


def test_words_are_rejected() -> None:
    with pytest.raises(InputError, match="--units word: CanineTokenizer reads characters"):
        TextSource(*canine(), kind="word")
