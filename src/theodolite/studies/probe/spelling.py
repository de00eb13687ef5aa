"""Words as a tokenizer spells them: which are one token, and why the others are not probed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.sources.text.vocabulary import SPACE_MARKS, special_ids
from theodolite.sources.text.windows import encodable

SEVERAL_TOKENS = "of several tokens"
UNKNOWN = "not in the vocabulary"
SPECIAL = "a special token of the model"
NO_TOKEN = "of no token at all"


@dataclass(frozen=True, slots=True)
class Spelled:
    """A word, the text that the model reads for it, and its token, or why it has none of its own."""

    word: str
    text: str
    token: int | None
    reason: str = ""


def spelled(words: Sequence[str], tokenizer: Any) -> dict[str, Spelled]:
    """Return every word as the model reads it by itself.

    Where the vocabulary tells words that follow a space from others (GPT-2 and its kin), a word is read after a
    space: as it stands in running text, and not as the beginning of one.
    """
    before = " " if marks_spaces(tokenizer) else ""
    texts = [before + encodable(word) for word in dict.fromkeys(words)]
    if not texts:
        return {}
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    special, unknown = special_ids(tokenizer), tokenizer.unk_token_id
    return {
        word: _spelled(word, text, found, special, unknown)
        for word, text, found in zip(dict.fromkeys(words), texts, ids, strict=True)
    }


def marks_spaces(tokenizer: Any) -> bool:
    """Say whether a word after a space is another token than the same word at the beginning of a text."""

    def marked(text: str) -> bool:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return bool(ids) and str(tokenizer.convert_ids_to_tokens(ids[:1])[0]).startswith(SPACE_MARKS)

    return marked(" a") and not marked("a")


def _spelled(word: str, text: str, ids: Sequence[int], special: set[int], unknown: int | None) -> Spelled:
    if len(ids) != 1:
        return Spelled(word, text, None, SEVERAL_TOKENS if ids else NO_TOKEN)
    token = int(ids[0])
    if token in special:
        return Spelled(word, text, None, SPECIAL)
    if token == unknown:
        return Spelled(word, text, None, UNKNOWN)
    return Spelled(word, text, token)
