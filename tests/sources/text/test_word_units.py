"""Units: vocabulary ids, surfaces and words; what a person reads; means over a word's tokens."""

from __future__ import annotations

import gc
import unicodedata
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from tests.small_models import FACTS, FAMILIES, POSITIONS, load, sentences

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.units import find_case_folding, list_vocabulary, strip_marks

DOCUMENTS = list(enumerate(sentences(12, seed=11, longest=12)))


def collected(source: TextSource, documents: list[tuple[int, str]]) -> list[tuple[str, torch.Tensor]]:
    """Return (unit key, state of the last layer taken) of every row."""
    rows: list[tuple[str, torch.Tensor]] = []

    def sink(batch: Batch) -> None:
        if batch.layer == source.layers[-1].index:
            keys = [source.units.known[code].key for code in batch.places.unit.tolist()]
            rows.extend(zip(keys, batch.states.clone(), strict=True))

    for prepared in source.prepare(documents):
        source.run(prepared, sink)
    return rows


class TestVocabulary:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_each_id_has_one_unit(self, small_model: Any, family: str) -> None:
        tokenizer = load(small_model(family))[1]
        units, codes = list_vocabulary(tokenizer, "id")
        assert codes == list(range(len(tokenizer)))
        assert [unit.id for unit in units.known] == codes
        assert [unit.key for unit in units.known] == tokenizer.convert_ids_to_tokens(codes)
        # The unknown token stands for text; in GPT-2's vocabulary it is the end of text too, and stays special.
        spared = {tokenizer.unk_token_id} - {tokenizer.eos_token_id}
        assert {unit.id for unit in units.known if unit.special} == set(tokenizer.all_special_ids) - spared

    def test_ids_with_gaps(self) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast

        words = {"[UNK]": 0, "river": 1, "valley": 7}
        backend = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
        for kind in ("id", "surface"):
            units, codes = list_vocabulary(tokenizer, kind)
            assert len(codes) == 8  # len(tokenizer) is 3, and id 7 occurs
            assert units.known[codes[7]].key == "valley"
        assert units.known[codes[3]].key == "<unused id 3>"

    @pytest.mark.parametrize("enabled", [True, False])
    @pytest.mark.parametrize("kind", ["id", "word"])
    def test_garbage_is_collected_afterwards_as_before(
        self, small_model: Any, monkeypatch: pytest.MonkeyPatch, enabled: bool, kind: str
    ) -> None:
        tokenizer, seen = load(small_model("bert"))[1], list[bool]()

        def vocabulary() -> dict[str, int]:
            seen.append(gc.isenabled())
            if kind == "word":
                raise ValueError
            return {"a": 0}

        monkeypatch.setattr(tokenizer, "get_vocab", vocabulary)
        try:
            (gc.enable if enabled else gc.disable)()
            with nullcontext() if kind == "id" else pytest.raises(ValueError):
                list_vocabulary(tokenizer, kind)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
        assert seen == [False]

    def test_surfaces_merge_what_differs_by_a_mark(self, small_model: Any) -> None:
        for family, pair in (("bert", ("a", "##a")), ("gpt2", ("a", "Ġa")), ("llama", ("a", "▁a"))):
            tokenizer = load(small_model(family))[1]
            one, other = tokenizer.convert_tokens_to_ids(list(pair))
            units, codes = list_vocabulary(tokenizer, "surface")
            assert one != other
            assert codes[one] == codes[other]
            assert units.known[codes[one]].key == units.known[codes[one]].text == "a"
            assert units.known[codes[one]].id is None

    def test_a_lone_mark_is_kept(self) -> None:
        assert [strip_marks(token) for token in ("Ġ", "▁", "Ġthe", "▁the", "the")] == [
            "Ġ",
            "▁",
            "the",
            "the",
            "the",
        ]
        assert strip_marks("##") == "##"
        assert strip_marks("##ing") == "##ing"  # only WordPiece marks continuation so
        assert strip_marks("##ing", "##") == "ing"

    def test_valid_bytes_are_decoded(self, small_model: Any) -> None:
        tokenizer = load(small_model("gpt2"))[1]
        units, _ = list_vocabulary(tokenizer, "id")
        text = {unit.key: unit.text for unit in units.known}
        assert text["Ġthe"] == " the"
        assert text["Ċ"] == "\n"
        assert text["æ"] == r"\xe6"  # the first byte of 東
        assert text["<|endoftext|>"] == "<|endoftext|>"

    def test_other_space_marks_are_read_as_spaces(self, small_model: Any) -> None:
        units, _ = list_vocabulary(load(small_model("llama"))[1], "id")
        assert {unit.key: unit.text for unit in units.known}["▁the"] == " the"
        assert {unit.key: unit.text for unit in list_vocabulary(load(small_model("bert"))[1], "id")[0].known}[
            "##a"
        ] == "##a"

    def test_words_begin_with_the_special_tokens(self, small_model: Any) -> None:
        tokenizer = load(small_model("bert"))[1]
        units, codes = list_vocabulary(tokenizer, "word")
        assert [unit.key for unit in units.known] == ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
        assert codes[:5] == [0, -1, 1, 2, 3]
        assert set(codes[5:]) == {-1}

    def test_another_kind_is_rejected(self, small_model: Any) -> None:
        with pytest.raises(InputError, match="--units 'lemma' is not one of id, surface, word"):
            list_vocabulary(load(small_model("bert"))[1], "lemma")


@pytest.mark.parametrize("family", FAMILIES)
def test_units_of_rows_are_the_tokens(small_model: Any, family: str) -> None:
    model, tokenizer = load(small_model(family))
    source = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[1])
    expected = [token for _, text in DOCUMENTS for token in windowed(tokenizer, family, text)]
    assert sorted(key for key, _ in collected(source, DOCUMENTS)) == sorted(expected)


@pytest.mark.parametrize("family", ["bert", "roberta", "llama"])
@pytest.mark.parametrize("kind", ["id", "word"])
def test_special_tokens_can_be_dropped(small_model: Any, family: str, kind: str) -> None:
    model, tokenizer = load(small_model(family))
    kept = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[1], kind=kind)
    dropped = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[1], kind=kind, drop_special=True)
    special = {*FACTS[family].before, *FACTS[family].after}
    with_them, without = collected(kept, DOCUMENTS), collected(dropped, DOCUMENTS)
    assert not special & {key for key, _ in without}
    assert sorted(key for key, _ in without) == sorted(key for key, _ in with_them if key not in special)
    blank = dropped.prepare([(0, "")])
    assert blank == []  # nothing that counts is no batch


@pytest.mark.parametrize("family", FAMILIES)
def test_words_are_means_over_their_tokens(small_model: Any, family: str) -> None:
    model, tokenizer = load(small_model(family))
    source = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[2], kind="word")
    rows = collected(source, DOCUMENTS)
    expected: list[tuple[str, torch.Tensor, int]] = []
    for _, text in DOCUMENTS:
        assert len(tokenizer(text)["input_ids"]) <= POSITIONS  # one window, so that the oracle need not cut
        encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            states = model(**encoded, output_hidden_states=True).hidden_states
        # Layer 2 is the library's state 2 but where the last state is after a norm.
        states = taken_by_hook(model, family, encoded) if len(states) == 3 and family == "llama" else states[2]
        words: dict[Any, list[int]] = {}
        for place, word in enumerate(encoded.word_ids(0)):
            words.setdefault(("special", place) if word is None else word, []).append(place)
        for word, places in words.items():
            if isinstance(word, tuple):
                key = tokenizer.convert_ids_to_tokens(int(encoded["input_ids"][0, places[0]]))
            else:
                key = text[offsets[places[0]][0] : offsets[places[-1]][1]].strip()
                if family == "bert":  # uncased, and without accents
                    key = "".join(
                        c for c in unicodedata.normalize("NFD", key.lower()) if not unicodedata.combining(c)
                    )
            mean = sum(states[0, place].double() for place in places) / len(places)
            expected.append((key, mean, len(places)))  # type: ignore[arg-type]
    assert sorted(key for key, _ in rows) == sorted(key for key, _, _ in expected)
    for key, mean, _ in expected:
        mine = [state for other, state in rows if other == key]
        apart = min(float((state - mean).norm() / mean.norm()) for state in mine)
        assert apart < 1e-5, key  # the forward pass in a batch differs by 1e-6
        # Occurrences may differ: "1" opens a text in one token and follows a space in two.
        counts = {count for other, _, count in expected if other == key}
        assert source.units.known[source.units.code(key)].tokens in counts  # type: ignore[index]
    cls = source.units.code("[CLS]")
    if family == "bert":
        assert cls is not None
        assert source.units.known[cls].special
        assert [key for key, _ in rows].count("[CLS]") == len(DOCUMENTS)


def taken_by_hook(model: Any, family: str, encoded: Any) -> torch.Tensor:
    from tests.small_models import blocks_of

    kept: list[Any] = []
    hook = blocks_of(model, family)[1].register_forward_hook(lambda module, args, output: kept.append(output))
    with torch.no_grad():
        model(**encoded)
    hook.remove()
    return kept[0][0] if isinstance(kept[0], tuple) else kept[0]


def windowed(tokenizer: Any, family: str, text: str) -> list[str]:
    """Cut naively: the special tokens around every window."""
    before, after = list(FACTS[family].before), list(FACTS[family].after)
    tokens, size = tokenizer.tokenize(text), POSITIONS - len(before) - len(after)
    windows = [tokens[start : start + size] for start in range(0, len(tokens), size)]
    return [token for window in windows for token in [*before, *window, *after]]


class TestWordsOfTokenizersThatKnowNone:
    """Llama 2's tokenizer has no pre-tokenizer: to it a whole document is one word. White space must end words."""

    @pytest.fixture
    def source(self, small_model: Any) -> TextSource:
        from tokenizers import Tokenizer, normalizers

        model, tokenizer = load(small_model("llama"))
        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        backend.pre_tokenizer = None  # type: ignore[assignment]
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer._tokenizer = backend
        assert set(tokenizer("the river was")._encodings[0].word_ids) == {None, 0}
        return TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[1], kind="word")

    def test_white_space_ends_a_word(self, source: TextSource) -> None:
        rows = collected(source, [(0, "the river was  unbelievable\nriver it's")])
        assert sorted(key for key, _ in rows) == sorted(
            ["<s>", "the", "river", "was", "unbelievable", "river", "it's"]
        )

    def test_a_window_edge_cuts_a_word_in_two(self, small_model: Any) -> None:
        model, tokenizer = load(small_model("gpt2"))
        source = TextSource(model, tokenizer, max_tokens=2, layers=[0], kind="word")
        assert "".join(key for key, _ in collected_in_order(source, "zqxjk")) == "zqxjk"
        assert len(source.units) == 1 + 3  # <|endoftext|>, zq, xj, k


def collected_in_order(source: TextSource, text: str) -> list[tuple[str, torch.Tensor]]:
    return sorted(collected(source, [(0, text)]), key=lambda row: "zqxjk".index(row[0]))


def test_words_after_surrogates_keep_their_places(small_model: Any) -> None:
    # A pair of surrogates becomes one character for the tokenizer, which moves every place after it.
    source = TextSource(*load(small_model("bert")), max_tokens=POSITIONS, layers=[0], kind="word")
    keys = {key for key, _ in collected(source, [(0, "\ud83d\ude42 river \udc00 angle")])}
    assert {"river", "angle"} <= keys


def test_white_space_only_is_a_word(small_model: Any) -> None:
    source = TextSource(*load(small_model("gpt2")), max_tokens=POSITIONS, layers=[0], kind="word")
    assert {key for key, _ in collected(source, [(0, "on\n\nit")])} == {"on", "\n", "it"}


def test_new_words_get_the_next_code_after_forgetting(small_model: Any) -> None:
    source = TextSource(*load(small_model("bert")), max_tokens=POSITIONS, kind="word")
    closed = len(source.units)
    source.prepare([(0, "river angle")])
    assert len(source.units) == closed + 2
    source.units.forget(closed)
    assert source.units.code("river") is None
    source.prepare([(0, "angle river")])
    assert source.units.code("angle") == closed


def test_case_is_folded_where_the_model_does_not_see_it(small_model: Any) -> None:
    """To an uncased model The and the are the same ids; to a cased one they are not."""
    documents = [(0, "The cat saw the CAT"), (1, "the Cat"), (2, "\ud800The")]
    model, tokenizer = load(small_model("bert"))
    uncased = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[1], kind="word", drop_special=True)
    keys = [key for key, _ in collected(uncased, documents)]
    assert sorted(keys) == ["cat"] * 3 + ["saw"] + ["the"] * 4
    for one, other in (("The", "the"), ("CAT", "cat")):
        assert tokenizer(one)["input_ids"] == tokenizer(other)["input_ids"]
    model, tokenizer = load(small_model("llama"))
    assert find_case_folding(tokenizer) is None
    cased = TextSource(model, tokenizer, max_tokens=POSITIONS, layers=[1], kind="word", drop_special=True)
    assert {"The", "the", "CAT", "Cat", "cat"} <= {key for key, _ in collected(cased, documents)}
