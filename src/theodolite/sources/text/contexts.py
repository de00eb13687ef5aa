"""The text around positions: a few occurrences of each unit, read from the batches that the fold reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.hashing import mix
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.units import CHARACTERS, byte_alphabet, continuation_mark, special_ids
from theodolite.sources.units import Units

Ints = NDArray[np.int64]

CHARACTERS_READ = 2**23
"""Characters from which contexts are taken; of a larger corpus, documents chosen by hash, about as many."""
TOKENS_AROUND = 16
"""Tokens shown on each side."""
_SALT = 0x636F6E74657874
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Occurrence(NamedTuple):
    """One position of the corpus and the text around it, as the model reads it."""

    unit: str  # key of the unit
    key: int  # the hash by which occurrences are chosen, as in the sample
    document: int
    window: int
    position: int
    before: str
    text: str
    after: str


@dataclass
class Pieces:
    """The text of token ids, in bytes: a character may consist of several tokens."""

    tokenizer: Any
    _known: dict[int, bytes] = field(default_factory=dict)
    _ordinary: dict[int, bytes] = field(default_factory=dict)  # the same, special tokens empty

    def __post_init__(self) -> None:
        tokenizer = self.tokenizer
        self.special = special_ids(tokenizer)
        self._mark = continuation_mark(tokenizer)
        by_bytes = tokenizer.is_fast and "ByteLevel" in str(tokenizer.backend_tokenizer.decoder)
        alphabet = byte_alphabet() if by_bytes else {}
        if not tokenizer.is_fast and len(tokenizer) < CHARACTERS:  # a vocabulary of bytes, each as one character
            alphabet = {byte: chr(byte) for byte in range(256)}
        self._bytes = {character: byte for byte, character in alphabet.items()}

    def join(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of consecutive tokens; incomplete characters are replaced, `special` tokens optional."""
        for id in ids:  # noqa: A001
            if id not in self._known:  # a difference of sets would visit all known ids
                self._known[id] = self._read(id)
                self._ordinary[id] = b"" if id in self.special else self._known[id]
        pieces = self._known if special else self._ordinary
        return b"".join([pieces[id] for id in ids]).decode("utf-8", "replace")  # noqa: A001

    def _read(self, id: int) -> bytes:  # noqa: A002
        token = self.tokenizer.convert_ids_to_tokens(id) or ""
        if id in self.special:
            return token.encode("utf-8", "replace")
        if self._bytes and all(character in self._bytes for character in token):
            return bytes(self._bytes[character] for character in token)
        if byte := _BYTE.fullmatch(token):
            return bytes([int(byte[1], 16)])
        if self._mark:
            token = token.removeprefix(self._mark) if token.startswith(self._mark) else f" {token}"
        return str(token).replace("▁", " ").encode("utf-8", "replace")


@dataclass
class ContextReader:
    """Reads the occurrences in documents, of which `characters` is the total number in the whole corpus.

    Which documents are read depends only on the corpus, so that parts of it read what the whole would.
    """

    source: TextSource
    characters: int

    def __post_init__(self) -> None:
        source = copy(self.source)
        source.units = Units(source.units.kind, list(source.units.known))  # reading must not number new words
        source.others = ()
        self.source = source
        self.pieces = Pieces(source.tokenizer)

    def select_documents(self, documents: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return all documents, or of a corpus larger than CHARACTERS_READ those with a small hash."""
        if self.characters <= CHARACTERS_READ:
            return list(documents)
        numbers = np.array([number for number, _ in documents], dtype=np.int64)
        chosen = mix(_SALT, self.source.corpus_key, numbers) / 2.0**64 < CHARACTERS_READ / self.characters
        return [document for document, taken in zip(documents, chosen.tolist(), strict=True) if taken]

    def prepare(self, documents: Sequence[tuple[int, str]]) -> list[TextBatch]:
        """Return the batches of the documents that are read."""
        chosen = self.select_documents(documents)
        return self.source.prepare(chosen) if chosen else []

    def unit_keys(self, codes: Ints) -> list[str]:
        """Return the keys of units by code."""
        return [self.source.units.known[code].key for code in codes.tolist()]

    def read(self, batch: TextBatch, rows: Ints) -> list[Occurrence]:
        """Return the occurrences at some rows of a batch's places."""
        first, last = _token_range(batch)
        starts, ends = _window_bounds(batch)
        window = np.searchsorted(starts, first[rows], side="right") - 1
        units = self.unit_keys(batch.places.unit.numpy()[rows])
        keys = batch.places.key.numpy()[rows].tolist()
        ids, names = batch.ids.flatten().tolist(), batch.names.tolist()  # lists: one item of an array takes long
        bounds = [each.tolist() for each in (first[rows], last[rows], starts[window], ends[window])]
        found = []
        for unit, key, at, begin, last_token, start, end in zip(
            units, keys, window.tolist(), *bounds, strict=True
        ):
            (document, number), after = names[at], last_token + 1
            found.append(
                Occurrence(
                    unit,
                    key,
                    document,
                    number,
                    begin - start,
                    self.pieces.join(ids[max(start, begin - TOKENS_AROUND) : begin], special=False).lstrip(),
                    self.pieces.join(ids[begin:after]),
                    self.pieces.join(ids[after : min(after + TOKENS_AROUND, end)], special=False).rstrip(),
                )
            )
        return found


def _token_range(batch: TextBatch) -> tuple[Ints, Ints]:
    """Return the first and the last token of each row of the places, as indices into the flattened ids."""
    tokens = batch.rows.numpy()
    if batch.pooling is None:
        return tokens, tokens
    pooling = batch.pooling.numpy()
    first = np.full(batch.positions, batch.ids.numel(), dtype=np.int64)
    last = np.full(batch.positions, -1, dtype=np.int64)
    np.minimum.at(first, pooling, tokens)
    np.maximum.at(last, pooling, tokens)
    return first, last


def _window_bounds(batch: TextBatch) -> tuple[Ints, Ints]:
    """Return where each window begins and ends in the flattened ids, without padding."""
    if batch.packed is not None:
        edges = batch.packed.starts.numpy().astype(np.int64)
        return edges[:-1], edges[1:]
    count, width = batch.ids.shape
    starts = np.arange(count, dtype=np.int64) * width
    return starts, starts + batch.mask.sum(1).numpy()
