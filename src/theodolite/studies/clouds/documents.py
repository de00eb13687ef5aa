"""Documents for the clouds laboratory: drawing them from a corpus and cutting them to a number of tokens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.corpora.text_corpus import Corpus, open_corpus
from theodolite.errors import InputError
from theodolite.sources.text.windows import repair_surrogates

Say = Callable[[str], None]
MIN_DOCUMENTS, MAX_DOCUMENTS = 20, 5_000
MIN_TOKENS = 3
"""Documents with fewer tokens are too short to compare at matched length."""


@dataclass(frozen=True)
class Sample:
    """The documents drawn from one corpus."""

    name: str
    texts: tuple[str, ...]
    numbers: tuple[int, ...]  # the positions of the documents in the corpus
    read: int
    repeated: int  # duplicate documents, skipped
    sources: tuple[int, ...] = ()  # the number of each document's source


@dataclass(frozen=True)
class Document:
    """A document as the model reads it."""

    text: str
    tokens: int
    number: int
    source: int


def check_limit(limit: int) -> None:
    """Raise if the number of documents is too small to compare clouds or too large to store all pairs."""
    if not MIN_DOCUMENTS <= limit <= MAX_DOCUMENTS:
        raise InputError(
            f"--limit must be between {MIN_DOCUMENTS} and {MAX_DOCUMENTS:,} documents per corpus (got {limit:,})."
        )


def draw_documents(
    corpora: Sequence[str | Path | Iterable[str]],
    limit: int,
    *,
    seed: int = 0,
    first: bool = False,
    sources: str | int | None = None,
    say: Say | None = None,
) -> list[Sample]:
    """Draw up to `limit` documents of each corpus at random; with `first`, take its first documents instead.

    `sources` says which documents have the same source: those of one "file", or this many consecutive ones. By
    default every document is a source, or every file if each corpus consists of several .txt files.
    """
    check_limit(limit)
    blocks = _check_sources(sources)
    if len(corpora) < 2:
        raise InputError(f"CORPORA: at least two corpora are required to compare them (got {len(corpora)}).")
    opened = [open_corpus(corpus, None, say) for corpus in corpora]
    names = [corpus.name for corpus in opened]
    for corpus, name in zip(corpora, names, strict=True):
        if isinstance(corpus, str | Path) and names.count(name) > 1:
            raise _repeated_corpus(name)
    samples, labels = [], short_names(names)
    if sources is None and all(len(c.files) > 1 and {f.suffix for f in c.files} == {".txt"} for c in opened):
        blocks = None
    for number, source in enumerate(opened):
        if say is not None:
            say(f"reading {source.name}")
        rng = random.Random(f"{seed} {number}")
        samples.append(_draw_one(source, labels[number], limit, rng, first=first, block=blocks))
    _check(samples)
    return samples


def short_names(names: Sequence[str]) -> list[str]:
    """Return names for figures: file names without the folder, with a number appended to equal names.

    >>> short_names(["in/a.txt", "chitchat", "list of 9", "list of 9"])
    ['a.txt', 'chitchat', 'list of 9 (3)', 'list of 9 (4)']
    """
    bare = [Path(name).name if not name.startswith("hf:") else name for name in names]
    return [name if bare.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(bare, 1)]


def _check_sources(sources: str | int | None) -> int | None:
    """Return the number of consecutive documents of a source, or None for files."""
    if sources == "file":
        return None
    given = str(1 if sources is None else sources)
    if not given.isdigit() or int(given) < 1:
        raise InputError(f"--sources must be file or a number of consecutive documents (got {sources!r}).")
    return int(given)


def _number_sources(corpus: Corpus, block: int | None) -> Iterator[tuple[int, int, str]]:
    """Yield source, number and text of every document."""
    if block is not None:
        yield from ((number // block, number, text) for number, text in corpus.documents())
        return
    if len(corpus.files) < 2:
        raise InputError(
            f"--sources file: CORPUS {corpus.name!r} is not several files; give a number of documents."
        )
    number = 0
    for source, path in enumerate(corpus.files):
        for _, text in replace(corpus, files=(path,)).documents():
            yield source, number, text
            number += 1


def _draw_one(
    corpus: Corpus, name: str, limit: int, rng: random.Random, *, first: bool, block: int | None = 1
) -> Sample:
    """Draw documents by reservoir sampling, so that each different document is equally likely."""
    kept: list[tuple[int, int, str]] = []
    seen = set[int]()
    read = repeated = 0
    for document in _number_sources(corpus, block):
        read += 1
        text = hash(document[2])
        if text in seen:
            repeated += 1
            continue
        seen.add(text)
        if len(kept) < limit:
            kept.append(document)
        elif (place := rng.randrange(len(seen))) < limit:
            kept[place] = document
        if first and len(kept) == limit:
            break
    rng.shuffle(kept)  # if clouds differ in size, only the first documents of the larger one are compared
    sources, numbers, texts = zip(*kept, strict=True)
    return Sample(name, texts, numbers, read, repeated, sources)


def _check(samples: Sequence[Sample]) -> None:
    for sample in samples:
        if len(sample.texts) < MIN_DOCUMENTS:
            raise InputError(
                f"CORPUS {sample.name!r} has {len(sample.texts)} different documents; at least {MIN_DOCUMENTS} "
                "are required. Each line of a .txt file is a document: split long lines."
            )
    for number, sample in enumerate(samples):
        for other in samples[:number]:
            if set(sample.texts) == set(other.texts):
                raise _repeated_corpus(f"{other.name}' and '{sample.name}")


def _repeated_corpus(name: str) -> InputError:
    return InputError(
        f"CORPUS '{name}': the same corpus was given twice. To see what no difference looks like, split it into "
        "two files."
    )


def truncate_texts(tokenizer: Any, texts: Sequence[str], tokens: int) -> list[tuple[str, int]]:
    """Truncate each text to a number of tokens, without special tokens; return the texts and their token counts.

    A text that is truncated inside a word may be tokenized differently, so its tokens are counted again.
    """
    plain = [repair_surrogates(text) for text in texts]
    ends = [_end(tokenizer, text, tokens) for text in plain]
    short = [text[:end] for text, end in zip(plain, ends, strict=True)]
    return [(text, len(tokenizer(text, add_special_tokens=False)["input_ids"])) for text in short]


def _end(tokenizer: Any, text: str, tokens: int) -> int:
    """Return the index of the character at which a text ends after this number of tokens."""
    if not tokenizer.is_fast:  # tokens are characters or bytes
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return len(text) if len(ids) <= tokens else len(tokenizer.decode(ids[:tokens]))
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, truncation=True, max_length=tokens
    )
    complete = len(encoded["input_ids"]) < tokens
    return len(text) if complete else int(encoded["offset_mapping"][-1][1])


def first_occurrences(texts: Sequence[str]) -> list[int]:
    """Return the index of the first occurrence of each different text.

    >>> first_occurrences(["a", "b", "a"])
    [0, 1]
    """
    return sorted({text: at for at, text in reversed(list(enumerate(texts)))}.values())


def common_length(counts: Sequence[Sequence[int]]) -> int:
    """Return the largest number of tokens that at least half of the documents of every corpus have.

    >>> common_length([[2, 8, 9], [30, 40, 50]])
    8
    """
    return int(min(np.quantile(each, 0.5, method="lower") for each in counts))
