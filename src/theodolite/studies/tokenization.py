"""What a tokenizer loses of sentences: words that become [UNK], case, and differences between sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from theodolite.sources.text.windows import repair_surrogates
from theodolite.studies.sentences import shorten

NAMED = 5
"""Examples that a warning names."""
MARKS = ".,;:!?\"'()[]{}«»“”‘’…"


def token_ids(tokenizer: Any, sentences: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the token ids of each sentence, without special tokens."""
    texts = [repair_surrogates(sentence) for sentence in sentences]
    return [tuple(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []


def find_unknown_words(tokenizer: Any, sentences: Sequence[str]) -> list[str]:
    """Return the words of which the tokenizer makes an unknown token, each once."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence.split()))
    if unknown is None:
        return []
    ids = token_ids(tokenizer, words)
    return [word.strip(MARKS) or word for word, found in zip(words, ids, strict=True) if unknown in found]


def find_lost_capitals(tokenizer: Any, sentences: Sequence[str]) -> list[str]:
    """Return the words with capitals, other than the first letter of a sentence, that are read as lower case."""
    words: dict[str, None] = {}
    for sentence in sentences:
        for place, word in enumerate(sentence.split()):
            if any(map(str.isupper, word.lstrip(MARKS)[1 if place == 0 else 0 :])):
                words[word.strip(MARKS)] = None
    given = list(words)
    small = token_ids(tokenizer, [word.lower() for word in given])
    return [
        word for word, ids, lower in zip(given, token_ids(tokenizer, given), small, strict=True) if ids == lower
    ]


def loss_warnings(tokenizer: Any, sentences: Sequence[str]) -> list[str]:
    """Return warnings that name the words that become unknown tokens and those that lose their capitals."""
    warnings = []
    if words := find_unknown_words(tokenizer, sentences):
        warnings.append(
            f"Words that are not in the vocabulary are read as {tokenizer.unk_token}: {name_examples(words)}. "
            "Differences between such words are lost."
        )
    if words := find_lost_capitals(tokenizer, sentences):
        warnings.append(f"The tokenizer ignores case, so these words lose their capitals: {name_examples(words)}.")
    return warnings


def equal_sentence_warnings(tokenizer: Any, sentences: Sequence[str]) -> list[str]:
    """Warn of different sentences that the model cannot distinguish, because their token ids are equal."""
    first: dict[tuple[int, ...], int] = {}
    pairs = []
    for number, ids in enumerate(token_ids(tokenizer, sentences)):
        other = first.setdefault(ids, number)
        if other != number:
            pairs.append(f"{shorten(sentences[other])} and {shorten(sentences[number])}")
    if not pairs:
        return []
    return [
        f"These sentences have equal token ids, so the model reads them as the same: {name_examples(pairs, '; ')}."
    ]


def name_examples(examples: Sequence[str], separator: str = ", ") -> str:
    """Return the first examples, and the number of the others."""
    more = f" and {len(examples) - NAMED} more" if len(examples) > NAMED else ""
    return separator.join(examples[:NAMED]) + more
