"""The scan: one pass before a survey that learns what the corpus is and where its shards lie."""

from dataclasses import dataclass
from hashlib import sha256

from theodolite.sources.corpus.corpus import Corpus
from theodolite.sources.corpus.filters import Tally
from theodolite.sources.corpus.labelled import Labelled
from theodolite.sources.corpus.pilot import PilotChooser, pilot_budget
from theodolite.sources.corpus.shards import Shard, ShardCutter

MOST_WORDS = 256


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
    words = [0] * (MOST_WORDS + 1)
    for number, text in corpus.tallied(tally):
        form = text.encode("utf-8", "surrogatepass")
        digest.update(len(form).to_bytes(8, "little") + form)
        if isinstance(text, Labelled):
            label = text.label.encode("utf-8", "surrogatepass")
            digest.update(len(label).to_bytes(8, "little") + label)
        documents += 1
        characters += len(text)
        words[min(len(text.split()), MOST_WORDS)] += 1
        cutter.add(len(text))
        chooser.add(number, text)
    pilot = chooser.choose(pilot_budget(characters, pilot_chars))
    return Scan(digest.hexdigest(), documents, characters, tally.read, cutter.finish(), pilot, tuple(words))
