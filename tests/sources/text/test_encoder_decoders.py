"""Encoder-decoders: both stacks, the decoder receives the same text shifted by one position, and its units too."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from tests.encoder_decoders import BLOCKS, REFUSED, SUPPORTED, build, byt5, tokenizer
from tests.shared import slow
from tests.small_models import POSITIONS, TOKENIZERS, sentences

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.models.text_anatomy import Anatomy
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource

DOCUMENTS = list(enumerate([*sentences(8, seed=6, longest=8), "x", "the river was high"]))
TOLERANCE = 1e-5  # as in test_source: another shape sums in another order
SENT = ("T5", "Bart", "MBart")  # one of each way to begin a decoder


def rows(source: TextSource, documents: list[tuple[int, str]]) -> dict[int, list[tuple[Batch, TextBatch]]]:
    """Return what each layer gave out, with the batch that it came from."""
    kept: dict[int, list[tuple[Batch, TextBatch]]] = {layer.index: [] for layer in source.layers}
    for prepared in source.prepare(documents):
        source.run(prepared, lambda batch, prepared=prepared: kept[batch.layer].append((batch, prepared)))
    return kept


def by_key(source: TextSource, documents: list[tuple[int, str]]) -> dict[int, dict[int, torch.Tensor]]:
    return {
        layer: {
            key: state
            for batch, _ in batches
            for key, state in zip(batch.places.key.tolist(), batch.states, strict=True)
        }
        for layer, batches in rows(source, documents).items()
    }


def library_shift(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Move ids on by one position with the function that the model's own file in transformers has for it."""
    module = sys.modules[type(model).__module__]
    config = model.config
    if not hasattr(module, "shift_tokens_right"):  # T5 and similar models: a method of the class with a head
        from transformers import T5ForConditionalGeneration

        return T5ForConditionalGeneration._shift_right(model, ids)  # type: ignore[no-any-return]
    wraps = config.model_type in ("mbart", "plbart")  # these begin with the last token, which is the language
    more = () if wraps else (config.decoder_start_token_id,)
    return module.shift_tokens_right(ids, config.pad_token_id, *more)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", SUPPORTED)
def test_layers_are_named_and_numbered(name: str) -> None:
    _, final_norm = SUPPORTED[name]
    expected: list[tuple[str, int | None]] = []
    for stack, blocks in BLOCKS.items():
        states: list[tuple[str, int | None]] = [(f"{stack} embeddings", 0)]
        states += [(f"{stack} block {number}", number) for number in range(1, blocks + 1)]
        if final_norm:  # the library's last state is after the norm, so the last block's is in no list
            states[-1:] = [(f"{stack} block {blocks}", None), (f"{stack} final norm", blocks)]
        expected += states
    anatomy = Anatomy.of(build(name))
    assert [(layer.name, layer.library_index) for layer in anatomy.layers] == expected
    assert {layer.stack for layer in anatomy.layers} == set(BLOCKS)
    assert anatomy.pads
    assert not anatomy.causal  # the decoder sees all of the text through the encoder


@pytest.mark.parametrize("name", [name if name in SENT else slow(name) for name in SUPPORTED])
def test_states_units_and_padding(name: str) -> None:
    # One document by itself, as plain transformers runs it, against all of them padded to one length.
    model = build(name)
    source = TextSource(model, tokenizer(), max_tokens=POSITIONS)
    together = by_key(source, DOCUMENTS)
    assert any((batch.mask == 0).any() for batch in source.prepare(DOCUMENTS))
    for document in DOCUMENTS:
        (prepared,) = source.prepare([document])
        ids = torch.tensor([source.tokenizer(document[1])["input_ids"]])
        fed = library_shift(model, ids)
        with torch.no_grad():
            output = model(input_ids=ids, decoder_input_ids=fed, output_hidden_states=True)
        for layer, batches in rows(source, [document]).items():
            ((batch, _),) = batches
            info = source.layers[layer]
            read = ids if info.stack == "encoder" else fed
            keys = prepared.places.key if info.stack == "encoder" else prepared.decoder.places.key  # type: ignore[union-attr]
            assert torch.equal(batch.places.key, keys)
            # The order of rows is by unit; the units are those of the tokens read at those positions.
            order = prepared.rows if info.stack == "encoder" else prepared.decoder.rows  # type: ignore[union-attr]
            assert [source.units.known[code].id for code in batch.places.unit] == read[0, order].tolist()
            assert torch.equal(batch.places.first, order == 0)
            if info.library_index is not None:
                theirs = getattr(output, f"{info.stack}_hidden_states")[info.library_index][0, order]
                apart = (batch.states - theirs).norm(dim=1) / theirs.norm(dim=1)
                assert apart.max() <= TOLERANCE, info.name
            for key, state in zip(batch.places.key.tolist(), batch.states, strict=True):
                assert (together[layer][key] - state).norm() <= TOLERANCE * state.norm(), info.name


@pytest.mark.parametrize("name", SUPPORTED)
def test_states_equal_hidden_states_exactly(name: str) -> None:
    model = build(name)
    anatomy = Anatomy.of(model)
    ids = torch.tensor([[0, 40, 41, 77, 12, 12, 63, 90, 2]])
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "decoder_input_ids": library_shift(model, ids),
    }
    seen: dict[int, torch.Tensor] = {}
    requested_layers = [layer.index for layer in anatomy.layers]
    with anatomy.hook_layers(
        lambda index, state: seen.update({index: state.clone()}), requested_layers
    ) as forward:
        forward(**inputs)
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True)
    for layer in anatomy.layers:
        if layer.library_index is not None:
            theirs = getattr(output, f"{layer.stack}_hidden_states")[layer.library_index]
            assert torch.equal(seen[layer.index], theirs), layer.name


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_with_other_rows_than_its_input_is_rejected(name: str) -> None:
    with pytest.raises(InputError, match=REFUSED[name][1]):
        Anatomy.of(build(name))


@pytest.mark.parametrize("name", SENT)
def test_tempting_wrong_inputs_give_other_states(name: str) -> None:
    model = build(name)
    source = TextSource(model, tokenizer(), max_tokens=POSITIONS)
    (prepared,) = source.prepare([(0, "the river was high and the valley was under it")])
    assert prepared.decoder is not None
    # Unshifted ids: a decoder that is shown the token it should be guessing.
    last = source.layers[-1].index
    given: list[torch.Tensor] = []
    for fed in (prepared.decoder.ids, prepared.ids):
        with source.anatomy.hook_layers(lambda _, state: given.append(state.clone()), [last]) as forward:
            forward(input_ids=prepared.ids, attention_mask=prepared.mask, decoder_input_ids=fed)
    assert ((given[0] - given[1]).norm(dim=-1) / given[0].norm(dim=-1)).max() > 0.1
    # The encoder's units for the decoder's rows: off by one, so that most are another token's.
    at, other = prepared.rows.argsort(), prepared.decoder.rows.argsort()
    wrong = prepared.places.unit[at] != prepared.decoder.places.unit[other]
    assert wrong.float().mean() > 0.8


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("kind", ["id", "surface", "word"])
def test_the_start_is_special(name: str, kind: str) -> None:
    source = TextSource(build(name), tokenizer(), max_tokens=POSITIONS, kind=kind)
    for prepared in source.prepare(DOCUMENTS):
        assert prepared.decoder is not None
        first = [source.units.known[code] for code in prepared.decoder.places.unit[prepared.decoder.places.first]]
        assert all(unit.special for unit in first)
        assert {unit.key for unit in first} == {{"T5": "<pad>"}.get(name, "</s>")}


@pytest.mark.parametrize("kind", ["id", "surface", "word"])
def test_a_start_that_the_tokenizer_does_not_know_is_special(kind: str) -> None:
    # Opus models begin with an id at the very end of the table, which a tokenizer need not name.
    source = TextSource(
        build("Marian", vocab_size=400, decoder_start_token_id=399), tokenizer(), max_tokens=POSITIONS, kind=kind
    )
    (prepared,) = source.prepare([(0, "the river")])
    assert prepared.decoder is not None
    unit = source.units.known[int(prepared.decoder.places.unit[prepared.decoder.places.first])]
    assert (unit.key, unit.special) == ("<unused id 399>", True)


def test_words_of_a_decoder_are_averages_of_their_own_tokens() -> None:
    reader = tokenizer()
    by_token = TextSource(build("Bart"), reader, max_tokens=POSITIONS)
    by_word = TextSource(by_token.anatomy.model, reader, max_tokens=POSITIONS, kind="word")
    text = "unbelievable mountain it was"
    encoded = reader(text)
    numbers = [None, *encoded.word_ids()[:-1]]  # of the tokens as the decoder is fed them
    last = by_token.layers[-1].index
    ((tokens, prepared),) = rows(by_token, [(0, text)])[last]
    states = tokens.states[prepared.decoder.rows.argsort()]  # type: ignore[union-attr]
    ((words, _),) = rows(by_word, [(0, text)])[last]
    found = {
        by_word.units.known[code].key: state for code, state in zip(words.places.unit, words.states, strict=True)
    }
    for number, word in enumerate(text.split()):
        mine = [at for at, of in enumerate(numbers) if of == number]
        assert torch.allclose(found[word], states[mine].double().mean(0).float(), rtol=1e-5, atol=1e-5), word
    assert len(found) == len(text.split()) + 2  # and </s>, which begins, and <s>


@pytest.mark.parametrize("kind", ["id", "word"])
def test_special_tokens_can_be_excluded(kind: str) -> None:
    source = TextSource(build("T5"), tokenizer(), max_tokens=POSITIONS, kind=kind, drop_special=True)
    documents = [(0, "the river was high"), (1, ""), (2, "x")]
    for layer, batches in rows(source, documents).items():
        codes = [int(code) for batch, _ in batches for code in batch.places.unit]
        assert not any(source.units.known[code].special for code in codes), source.layers[layer].name
        assert codes
        # </s> closes every window, so no token of the text is lost to the shift.
        assert sorted(codes) == sorted(
            int(code) for batch, _ in rows(source, documents)[0] for code in batch.places.unit
        )


def test_a_text_without_an_end_token_loses_its_last_token_to_the_shift() -> None:
    reader = TOKENIZERS["gpt2"]()  # adds nothing before or after
    source = TextSource(build("Bart"), reader, max_tokens=POSITIONS, drop_special=True)
    ids = reader("the river was high")["input_ids"]
    found = rows(source, [(0, "the river was high"), (1, "x")])
    of_encoder = [source.units.known[c].id for batch, _ in found[0] for c in batch.places.unit]
    of_decoder = [
        source.units.known[c].id for batch, _ in found[source.layers[-1].index] for c in batch.places.unit
    ]
    lone = reader("x")["input_ids"]
    assert sorted(of_encoder) == sorted(ids + lone)  # type: ignore[type-var]
    assert sorted(of_decoder) == sorted(ids[:-1] + lone[:-1])  # type: ignore[type-var]


def test_equal_contexts_have_equal_states_in_both_stacks() -> None:
    # The decoder is not fed the last token but sees it through the encoder: without </s> two windows that differ
    # in it alone are fed alike, and a context made of what the decoder is fed would call their states equal.
    documents = [(0, "the river was high"), (1, "the river was low"), (2, "the river was high")]
    source = TextSource(build("Bart"), TOKENIZERS["gpt2"](), max_tokens=POSITIONS)
    for layer, batches in rows(source, documents).items():
        by_context: dict[int, list[torch.Tensor]] = {}
        for batch, _ in batches:
            for context, state in zip(batch.places.context.tolist(), batch.states, strict=True):
                by_context.setdefault(context, []).append(state)
        repeated = [group for group in by_context.values() if len(group) > 1]
        assert len(repeated) == len(source.tokenizer(documents[0][1])["input_ids"])
        assert all((a - b).norm() <= TOLERANCE * a.norm() for a, b in repeated), source.layers[layer].name


@pytest.mark.parametrize("name", SENT)
def test_every_window_of_a_long_document_is_shifted_by_itself(name: str) -> None:
    model = build(name)
    source = TextSource(model, tokenizer(), max_tokens=12, batch_tokens=30)
    text = " ".join(sentences(4, seed=9))
    met = []
    for prepared in source.prepare([(0, text)]):
        assert prepared.decoder is not None
        assert torch.equal(prepared.mask, prepared.decoder.mask)
        for ids, fed, mask in zip(prepared.ids, prepared.decoder.ids, prepared.mask, strict=True):
            length = int(mask.sum())
            assert length <= 12
            assert torch.equal(fed[None, :length], library_shift(model, ids[None, :length]))
            met.append(ids[1 : length - 1])
    whole = source.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert sorted(torch.cat(met).tolist()) == sorted(whole)
    first = sum(int(p.decoder.places.first.sum()) for p in source.prepare([(0, text)]))  # type: ignore[union-attr]
    assert first == len(met) > 3


def test_layers_inside_the_encoder_run_no_decoder() -> None:
    model = build("T5")
    source = TextSource(model, tokenizer(), max_tokens=POSITIONS, layers="0,1")
    whole = by_key(TextSource(model, tokenizer(), max_tokens=POSITIONS), DOCUMENTS)
    ran = []
    model.decoder.register_forward_pre_hook(lambda module, args: ran.append("decoder"))
    model.encoder.block[1].register_forward_pre_hook(lambda module, args: ran.append("block 2"))
    some = by_key(source, DOCUMENTS)
    assert ran == []
    assert some.keys() == {0, 1}
    assert all(torch.equal(state, whole[layer][key]) for layer in some for key, state in some[layer].items())
    only = TextSource(model, tokenizer(), max_tokens=POSITIONS, layers="5")
    assert [layer.name for layer in only.layers] == ["decoder block 1"]
    for key, state in by_key(only, DOCUMENTS)[5].items():
        assert torch.equal(state, whole[5][key])


class TestBytes:
    TEXT = "naïve 東京 🙂 ok"

    def test_units_are_bytes(self) -> None:
        source = TextSource(*byt5(), max_tokens=POSITIONS)
        (prepared,) = source.prepare([(0, self.TEXT)])
        read = [source.units.known[code] for code in prepared.places.unit[prepared.rows.argsort()]]
        assert [unit.id for unit in read] == [byte + 3 for byte in self.TEXT.encode()] + [1]
        assert read[-1].special
        assert not any(unit.special for unit in read[:-1])
        assert [unit.text for unit in read[:5]] == ["n", "a", "\\xc3", "\\xaf", "v"]
        assert prepared.decoder is not None
        fed = [source.units.known[c].id for c in prepared.decoder.places.unit[prepared.decoder.rows.argsort()]]
        assert fed == [0, *(byte + 3 for byte in self.TEXT.encode())]

    def test_windows_hold_every_byte_once(self) -> None:
        source = TextSource(*byt5(), max_tokens=8)
        windows, _ = source.windows([(0, self.TEXT * 3), (1, ""), (2, "\ud800")])
        mine = [window for window in windows if window.document == 0]
        assert (
            bytes(int(i) - 3 for window in mine for i in window.ids[~window.special]) == (self.TEXT * 3).encode()
        )
        assert all(len(window) <= 8 and window.ids[-1] == 1 for window in windows)
        assert [window.ids.tolist() for window in windows if window.document == 1] == [[1]]  # </s> alone
        assert bytes(int(i) - 3 for i in windows[-1].ids[:-1]).decode() == "\ufffd"

    def test_an_empty_document_among_others(self) -> None:
        source = TextSource(*byt5(), max_tokens=POSITIONS)
        together = by_key(source, [(0, self.TEXT), (1, ""), (2, "ok")])
        assert {len(states) for states in together.values()} == {len(self.TEXT.encode()) + 1 + 1 + 3}
        for layer, states in by_key(source, [(1, "")]).items():
            for key, state in states.items():
                assert (together[layer][key] - state).norm() <= TOLERANCE * state.norm()

    def test_words_are_rejected(self) -> None:
        with pytest.raises(InputError, match=r"--units word: ByT5Tokenizer reads characters or bytes .* id"):
            TextSource(*byt5(), kind="word")


@pytest.mark.parametrize("name", SENT)
def test_half_precision(name: str) -> None:
    source = TextSource(build(name).to(torch.bfloat16), tokenizer(), max_tokens=POSITIONS)
    assert source.anatomy.pads
    found = rows(source, DOCUMENTS)
    assert {batch.states.dtype for batches in found.values() for batch, _ in batches} == {torch.bfloat16}
    assert [layer.library_index for layer in source.layers] == [
        layer.library_index for layer in Anatomy.of(build(name)).layers
    ]
