"""Scan a text corpus once before a survey: its sha256, its size, its shards and the documents of the pilot."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from theodolite.corpora.chat import cut_conversation
from theodolite.corpora.fields import FieldChoice, FieldCounter
from theodolite.corpora.filters import Tally, count_words_within
from theodolite.corpora.options import TOP
from theodolite.corpora.shards import Shard, ShardCutter
from theodolite.corpora.text_corpus import Corpus
from theodolite.corpora.text_readers import Labelled, label_of, value_of
from theodolite.hashing import mix

_LEAST_BUDGET = 8_192
_PILOT_SHARE = 20  # at most one twentieth of the corpus: 5%


class PilotChooser:
    """Keeps the documents whose numbers have the smallest hashes, each cut to `per_document` characters.

    Memory: `most` cut documents.
    """

    def __init__(
        self, most: int, per_document: int, cut: Callable[[str, int], str] = lambda text, size: text[:size]
    ) -> None:
        self._most = max(1, most)
        self._characters, self._cut = per_document, cut
        # heapq keeps the smallest on top, and the largest hash is to be dropped: hashes are stored negated.
        self._heap: list[tuple[int, int, str]] = []

    def add(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> None:
        """Add the documents whose hashes are among the smallest so far."""
        hashes = mix(numbers)
        full = len(self._heap) >= self._most
        candidates = np.flatnonzero(hashes < np.uint64(-self._heap[0][0])) if full else np.arange(len(hashes))
        for place in candidates.tolist():
            entry = (-int(hashes[place]), int(numbers[place]), self._cut(texts[place], self._characters))
            if len(self._heap) < self._most:
                heapq.heappush(self._heap, entry)
            elif entry[0] > self._heap[0][0]:
                heapq.heapreplace(self._heap, entry)

    def choose(self, budget: int) -> tuple[tuple[int, str], ...]:
        """Return, sorted by number, the documents of smallest hash until the next would exceed the budget.

        The first is kept whatever its length.
        """
        chosen, characters = list[tuple[int, str]](), 0
        for _, number, text in sorted(self._heap, reverse=True):
            characters += len(text)
            if chosen and characters > budget:
                break
            chosen.append((number, text))
        return tuple(sorted(chosen))


def compute_pilot_budget(characters: int, most: int) -> int:
    """Return the number of characters that a pilot may read: 5% of a corpus, between 8,192 and `most`.

    >>> [compute_pilot_budget(characters, 32_768) for characters in (1_000, 200_000, 10**9)]
    [8192, 10000, 32768]
    """
    return min(most, max(_LEAST_BUDGET, characters // _PILOT_SHARE))


MOST_WORDS = 256
_LENGTH = Struct("<Q")


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of one pass over a corpus.

    `sha256`, `documents`, `characters` and `shards` are of the documents kept; `read` counts documents before
    the filters, up to where a limit ended the pass. `pilot` holds (document number, shortened text).
    """

    sha256: str
    documents: int
    characters: int
    read: int
    shards: tuple[Shard, ...]
    pilot: tuple[tuple[int, str], ...]
    words: tuple[int, ...]  # counts of kept documents with 0, 1, 2 ... words; the last bin is open
    by: FieldChoice | None = None  # the groups of the kept documents by a field


def scan(
    corpus: Corpus,
    *,
    shard_chars: int = 2**19,
    pilot_documents: int = 300,
    pilot_chars: int = 32_768,
    per_document: int = 2_048,
    by_top: int = TOP,
) -> Scan:
    """Read a corpus once. Memory does not grow with the corpus, except for the list of shards.

    The sha256 is over the kept documents in order: for each, the length of its UTF-8 form as 8 bytes,
    little-endian, then that form (lone surrogates are allowed), so that moving a boundary changes it and the
    format of the file does not. Shards depend only on the lengths of the kept documents and on `shard_chars`.
    `by_top` is the number of groups by the field of the corpus options, if they name one.

    >>> from theodolite.corpora.text_corpus import open_corpus
    >>> found = scan(open_corpus(["one", "two words"]), shard_chars=3)
    >>> found.documents, found.characters, len(found.shards)
    (2, 12, 2)
    """
    tally, digest = Tally(), sha256()
    cut = [cut_conversation] if corpus.options.chat else []
    cutter, chooser = ShardCutter(shard_chars), PilotChooser(pilot_documents, per_document, *cut)
    documents = characters = 0
    words = np.zeros(MOST_WORDS + 1, dtype=np.int64)
    by = corpus.options.by
    counter = None if by is None else FieldCounter(by, by_top)
    for numbers, texts in corpus.blocks(tally):
        joined = "".join(texts)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        digest.update(_frame_texts(texts, plain=joined.isascii()))
        documents += len(texts)
        characters += len(joined)
        words += np.bincount(np.minimum(count_words_within(joined, lengths), MOST_WORDS), minlength=len(words))
        cutter.add_all(lengths)
        chooser.add(numbers, texts)
        if counter is not None:
            counter.add(map(value_of, texts))
    if by is not None and counter is not None and not counter.has_values:
        raise corpus.no_field(by)
    pilot = chooser.choose(compute_pilot_budget(characters, pilot_chars))
    return Scan(
        digest.hexdigest(),
        documents,
        characters,
        tally.read,
        cutter.finish(),
        pilot,
        tuple(words.tolist()),
        None if counter is None else counter.choose(),
    )


def _frame_texts(texts: Sequence[str], *, plain: bool = False) -> bytes:
    """Return the bytes that enter the sha256 of a corpus: each text after its length, and likewise each label."""
    if Labelled in set(map(type, texts)):
        pairs = ((text,) if (label := label_of(text)) is None else (text, label) for text in texts)
        texts, plain = list(chain.from_iterable(pairs)), False
    # Joining strings with one character per byte takes a third of the time of joining bytes.
    forms = texts if plain else [text if text.isascii() else _to_latin1(text) for text in texts]
    sizes = list(map(len, forms))
    heads = {size: _LENGTH.pack(size).decode("latin-1") for size in set(sizes)}
    return "".join(chain.from_iterable(zip(map(heads.__getitem__, sizes), forms, strict=True))).encode("latin-1")


def _to_latin1(text: str) -> str:
    """Return the bytes of the UTF-8 form as characters with the same codes."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")
