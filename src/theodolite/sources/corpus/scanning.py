"""The scan: one pass before a survey that learns what the corpus is and where its shards lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from struct import Struct

import numpy as np

from theodolite.sources.corpus.corpus import Corpus
from theodolite.sources.corpus.filters import Tally
from theodolite.sources.corpus.labelled import Labelled
from theodolite.sources.corpus.pilot import PilotChooser, pilot_budget
from theodolite.sources.corpus.shards import Shard, ShardCutter
from theodolite.sources.corpus.words import words_within

MOST_WORDS = 256
_LENGTH = Struct("<Q")


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a corpus found.

    `sha256`, `documents`, `characters` and `shards` are of the documents kept; `read` counts documents before
    the filters, up to where a limit ended the reading. `pilot` holds (document number, text cut short).
    """

    sha256: str
    documents: int
    characters: int
    read: int
    shards: tuple[Shard, ...]
    pilot: tuple[tuple[int, str], ...]
    words: tuple[int, ...]  # how many kept documents have 0, 1, 2 ... words; the last bin is open


def scan(
    corpus: Corpus,
    *,
    shard_chars: int = 2**19,
    pilot_documents: int = 300,
    pilot_chars: int = 32_768,
    per_document: int = 2_048,
) -> Scan:
    """Read a corpus once, in memory that does not grow with it but for the list of shards.

    The sha256 is over the kept documents in order: for each, the length of its UTF-8 form as 8 bytes,
    little-endian, then that form (lone surrogates pass), so that moving a boundary changes it and the format of
    the file does not. Shards depend on nothing but the lengths of the kept documents and `shard_chars`.

    >>> from theodolite.sources.corpus import open_corpus
    >>> found = scan(open_corpus(["one", "two words"]), shard_chars=3)
    >>> found.documents, found.characters, len(found.shards)
    (2, 12, 2)
    """
    tally, digest = Tally(), sha256()
    cutter, chooser = ShardCutter(shard_chars), PilotChooser(pilot_documents, per_document)
    documents = characters = 0
    words = np.zeros(MOST_WORDS + 1, dtype=np.int64)
    for numbers, texts in corpus.blocks(tally):
        whole = "".join(texts)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        digest.update(_framed(texts, plain=whole.isascii()))
        documents += len(texts)
        characters += len(whole)
        words += np.bincount(np.minimum(words_within(whole, lengths), MOST_WORDS), minlength=len(words))
        cutter.add_all(lengths)
        chooser.add(numbers, texts)
    pilot = chooser.choose(pilot_budget(characters, pilot_chars))
    return Scan(
        digest.hexdigest(), documents, characters, tally.read, cutter.finish(), pilot, tuple(words.tolist())
    )


def _framed(texts: Sequence[str], *, plain: bool = False) -> bytes:
    """Return what the sha256 of a corpus is over: each text after its length, and so each label."""
    if Labelled in set(map(type, texts)):
        pairs = ((text, text.label) if isinstance(text, Labelled) else (text,) for text in texts)
        texts, plain = list(chain.from_iterable(pairs)), False
    # A string that has a character for each byte is joined in a third of the time that bytes take.
    forms = texts if plain else [text if text.isascii() else _bytewise(text) for text in texts]
    sizes = list(map(len, forms))
    heads = {size: _LENGTH.pack(size).decode("latin-1") for size in set(sizes)}
    return "".join(chain.from_iterable(zip(map(heads.__getitem__, sizes), forms, strict=True))).encode("latin-1")


def _bytewise(text: str) -> str:
    """Return the bytes of the UTF-8 form as characters of the same numbers."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")
