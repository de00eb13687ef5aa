"""The states of a model at positions that another model has too: tokens, words, sentences or documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import InputError, nearest
from theodolite.hashing import mix, text_hash
from theodolite.models.layers import Layer
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import Window, cut_windows, repair_surrogates
from theodolite.state.pilot import MASSIVE
from theodolite.studies.text_model import TextModel

TOKEN, WORD, SENTENCE, DOCUMENT = "token", "word", "sentence", "document"
MATCHES = ("auto", TOKEN, WORD, SENTENCE, DOCUMENT)
SENTENCE_END = re.compile(r"""(?<=[.!?])\s+|(?<=[.!?]["')\]»”’])\s+|\s*\n\s*|(?<=[。！？])""")
"""Where one sentence ends and the next begins: after its mark and white space, or at a new line."""
CHUNK = 16_384
"""Characters read at a time by both models; longer documents are cut into pieces at white space."""
HELD_SALT = 0x68656C64
HELD_SHARE = 5
"""One document in this many is held out, by a hash of its text, so that equal documents are on the same side."""
GROUPS = 2 * HELD_SHARE
"""Groups of documents for errors, by the same hash: two of them are the documents that are held out."""
PLACES = 2**32
"""More than the tokens of a piece."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """A document, or a part of a long one."""

    document: int
    number: int  # among the pieces of its document
    text: str
    group: int  # of its document

    @property
    def held(self) -> bool:
        """Whether its document is held out when maps are fitted."""
        return self.group % HELD_SHARE == 0


@dataclass(frozen=True, eq=False)
class Positions:
    """The states of the matched positions of a few pieces, sorted by key."""

    keys: Ints  # (positions,) PLACES * number of the piece + place in the piece
    states: dict[int, Tensor]  # by layer: (positions, dim) float32


def cut_pieces(documents: Iterable[tuple[int, str]], *, whole: bool = False) -> Iterator[list[Piece]]:
    """Yield lists of pieces with at most CHUNK characters together. With `whole`, only the start of a document."""
    chunk: list[Piece] = []
    size = 0
    for number, given in documents:
        text = repair_surrogates(given)
        group = int(mix(HELD_SALT, text_hash(text)) % np.uint64(GROUPS))
        for part, piece in enumerate(_split(text)):
            if whole and part:
                break
            if chunk and size + len(piece) > CHUNK:
                yield chunk
                chunk, size = [], 0
            chunk.append(Piece(number, part, piece, group))
            size += len(piece)
    if chunk:
        yield chunk


def _split(text: str) -> Iterator[str]:
    """Yield parts of at most CHUNK characters, cut after the last space where there is one."""
    while len(text) > CHUNK:
        at = text.rfind(" ", 1, CHUNK) + 1 or CHUNK
        yield text[:at]
        text = text[at:]
    yield text


def choose_match(match: str, tokenizers: Sequence[Any]) -> tuple[str, str]:
    """Return how positions are matched, and a sentence that says so; reject what these tokenizers cannot do."""
    if match not in MATCHES:
        raise InputError(f"--match {match!r} is not one of {', '.join(MATCHES)}.{nearest(match, list(MATCHES))}")
    same, fast = have_same_tokens(*tokenizers), all(tokenizer.is_fast for tokenizer in tokenizers)
    if match == TOKEN and not same:
        raise InputError(
            "--match token requires models with the same tokenizer, and those of these models differ; use word or "
            "document."
        )
    if match in (WORD, SENTENCE) and not fast:
        slow = next(type(tokenizer).__name__ for tokenizer in tokenizers if not tokenizer.is_fast)
        raise InputError(
            f"--match {match}: {slow} does not say which characters a token covers, so {match}s cannot be found; "
            "use document."
        )
    if match == "auto":
        match = TOKEN if same else WORD if fast else DOCUMENT
    says = {
        TOKEN: "token by token: the tokenizers are the same"
        if len(tokenizers) > 1
        else "token by token: one model reads the text once",
        WORD: "word by word, by their characters: a word ends at white space, and is the mean of its tokens",
        SENTENCE: "sentence by sentence, by their characters: a sentence is the mean of its tokens",
        DOCUMENT: "document by document: a document is the mean of its tokens",
    }
    return match, f"Positions are matched {says[match]}."


def have_same_tokens(*tokenizers: Any) -> bool:
    """Return whether all tokenizers cut every text into the same tokens, apart from special ones."""
    return len({_describe(tokenizer) for tokenizer in tokenizers}) == 1


def _describe(tokenizer: Any) -> str:
    if not tokenizer.is_fast:
        return json.dumps([type(tokenizer).__name__, sorted(tokenizer.get_vocab().items())])
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    return json.dumps([parts[name] for name in ("normalizer", "pre_tokenizer", "model")], sort_keys=True)


class PositionReader:
    """Reads pieces through one model and returns the states of the positions that can be matched.

    Special tokens are left out, except from the mean of a document, as in most sentence encoders. Without `sinks`,
    positions with a norm above 10 times the median of a layer are left out: one of them outweighs all others in
    every sum. The medians are those of the first pieces.
    """

    def __init__(
        self,
        loaded: TextModel,
        *,
        match: str,
        layers: str | Sequence[int] | None,
        max_tokens: int,
        sinks: bool = False,
    ) -> None:
        source = TextSource(loaded.network, loaded.tokenizer, layers=layers, max_tokens=max_tokens)
        kept = [layer for layer in source.layers if layer.units and layer.stack != "decoder"]
        if not kept:
            raise InputError("--layers: none of these layers has one state per token of the text; choose others.")
        self.left_out = [layer.name for layer in source.layers if layer not in kept]
        self.source = source.narrowed(kept)
        self.match = match
        self.counts = {"read": 0, "sinks": 0, "nonfinite": 0}
        self.limits: Tensor | None = None
        self._sinks = sinks

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose states are read."""
        return self.source.layers

    def read(self, pieces: Sequence[Piece]) -> Positions:
        """Run the model on the pieces."""
        texts = [(number, piece.text) for number, piece in enumerate(pieces)]
        places = self._place_windows(texts)
        keys: list[Tensor] = []
        states: dict[int, list[Tensor]] = {layer.index: [] for layer in self.layers}
        for batch in self.source.prepare(texts):
            width = batch.ids.shape[1]
            table = torch.full((len(batch.windows), width), -1, dtype=torch.int64)
            for at, name in enumerate(batch.windows):
                found = places[name]
                table[at, : len(found)] = torch.from_numpy(found)
            key = table[batch.rows // width, batch.rows % width]
            kept = key >= 0

            def take(result: Batch, kept: Tensor = kept) -> None:
                states[result.layer].append(result.states[kept].float())

            self.source.run(batch, take)
            keys.append(key[kept])
        if not sum(map(len, keys)):  # only characters that the tokenizer drops
            nothing = {layer.index: torch.empty(0, layer.dim) for layer in self.layers}
            return Positions(np.empty(0, dtype=np.int64), nothing)
        return self._finish(torch.cat(keys), {layer: torch.cat(parts) for layer, parts in states.items()})

    def _place_windows(self, texts: Sequence[tuple[int, str]]) -> dict[tuple[int, int], Ints]:
        """Return the key of every token of each window, by document and number; -1 if it is left out."""
        tokenizer = self.source.tokenizer
        number_runs = {WORD: _number_words, SENTENCE: _number_sentences}.get(self.match)
        windows = cut_windows(texts, tokenizer, self.source.max_tokens, words=number_runs is not None)
        runs = {} if number_runs is None else {number: number_runs(text) for number, text in texts}
        seen = dict.fromkeys((number for number, _ in texts), 0)
        found = {}
        for window in windows:
            number = window.document
            if self.match == DOCUMENT:
                place = np.zeros(len(window), dtype=np.int64)
            elif runs:
                place = _words_of(window, runs[number])
            else:
                text = ~window.special
                place = np.where(text, seen[number] + np.cumsum(text) - 1, -1)
                seen[number] += int(text.sum())
            found[number, window.number] = np.where(place < 0, -1, number * PLACES + place)
        return found

    def _finish(self, keys: Tensor, states: dict[int, Tensor]) -> Positions:
        """Leave out sinks and states that are not finite, and average the tokens of each word or longer unit."""
        norms = torch.stack([torch.linalg.vector_norm(part.double(), dim=1) for part in states.values()])
        if self.limits is None:
            self.limits = MASSIVE * norms.nanmedian(dim=1, keepdim=True).values
        broken = ~norms.isfinite().all(0)
        massive = ~broken & (norms > self.limits).any(0)
        if self._sinks:
            massive[:] = False
        self.counts["read"] += len(keys)
        self.counts["sinks"] += int(massive.sum())
        self.counts["nonfinite"] += int(broken.sum())
        bad = broken | massive
        if self.match == WORD:  # the rest of a word would be another vector
            bad = torch.isin(keys, keys[bad])
        keys, states = keys[~bad], {layer: part[~bad] for layer, part in states.items()}
        found, into = torch.unique(keys, return_inverse=True)
        return Positions(
            found.numpy(), {layer: _average(part, into, len(found)) for layer, part in states.items()}
        )


def _average(states: Tensor, into: Tensor, count: int) -> Tensor:
    """Return the mean of the rows with the same number, summed in float64. (rows, dim) -> (count, dim)"""
    sums = torch.zeros(count, states.shape[1], dtype=torch.float64).index_add_(0, into, states.double())
    return (sums / torch.bincount(into, minlength=count)[:, None]).float()


def _number_words(text: str) -> Ints:
    """Return the number of the word that each character belongs to, -1 for white space. (characters,)

    >>> _number_words("to be").tolist()
    [0, 0, -1, 1, 1]
    """
    space = np.fromiter(map(str.isspace, text), dtype=np.bool_, count=len(text))
    begins = ~space & np.append(True, space[:-1])[: len(text)]
    return np.where(space, -1, np.cumsum(begins) - 1)


def _number_sentences(text: str) -> Ints:
    """Return the number of the sentence that each character belongs to, -1 for what is between. (characters,)

    >>> _number_sentences("Is it? Yes.").tolist()
    [0, 0, 0, 0, 0, 0, -1, 1, 1, 1, 1]
    """
    numbers = np.zeros(len(text), dtype=np.int64)
    for number, end in enumerate(SENTENCE_END.finditer(text)):
        numbers[end.start() : end.end()] = -1
        numbers[end.end() :] = number + 1
    return numbers


def _words_of(window: Window, words: Ints) -> Ints:
    """Return the number of the word or sentence in which each token begins; -1 if special or between. (tokens,)"""
    assert window.spans is not None
    place = np.full(len(window), -1, dtype=np.int64)
    for token, (start, end) in enumerate(window.spans.tolist()):
        covered = words[start:end]
        if not window.special[token] and (covered >= 0).any():
            place[token] = covered[covered >= 0][0]
    return place
