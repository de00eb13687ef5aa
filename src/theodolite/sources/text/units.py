"""Units of text: vocabulary ids, surfaces and words."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.text.windows import Window
from theodolite.sources.units import Unit, Units

SHORTEST_WORD, LONGEST_WORD = 2, 15  # letters
_LETTERS = re.compile(r"[^\W\d_]+")


def clean_text(text: str) -> str:
    """Return the words of a text joined by single spaces, without punctuation and numbers.

    A word is a longest run of Unicode letters (including numerals such as ² and Ⅷ, which are not digits),
    lowercased, of 2 to 15 of them. Everything else ends a word and is removed: punctuation, digits, symbols,
    underscores, also apostrophes and hyphens inside words. Runs of one letter and of more than 15 are removed too.
    These are the words of the authors' released code, which takes gensim's simple_preprocess with min_len=2.

    >>> clean_text("“Don't!” — 3.14 half-way, I said; naïve 東京...")
    'don half way said naïve 東京'
    >>> clean_text("1,024 ... ?!")
    ''

    Reference: Yamagiwa and Shimodaira 2024, appendix J.
    """
    return " ".join(word for word in _LETTERS.findall(text.lower()) if SHORTEST_WORD <= len(word) <= LONGEST_WORD)


KINDS = ("id", "surface", "word", "none")
CHARACTERS = 512  # a vocabulary of fewer tokens is one of characters or bytes
SPACE_MARKS = ("Ġ", "▁")


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Do not search for unreachable cycles: among many new objects this takes as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_pause_garbage_collection()
def list_vocabulary(tokenizer: Any, kind: str, *, start: int | None = None) -> tuple[Units, list[int]]:
    """Return the units of this kind, and the code of the unit for every vocabulary id.

    `word` starts with only the special tokens and grows as words occur. `none` has one unit for all. `start`, the
    first id of a decoder input, is always special.
    """
    if kind not in KINDS:
        raise InputError(f"--units {kind!r} is not one of {', '.join(KINDS)}.")
    if kind == "word" and not tokenizer.is_fast:
        raise InputError(
            f"--units word: {type(tokenizer).__name__} reads characters or bytes and has no words; use --units id."
        )
    special = special_ids(tokenizer) | (set() if start is None else {start})
    size = max([*tokenizer.get_vocab().values(), *special]) + 1  # len(tokenizer) is less where ids have gaps
    if kind == "none":
        return Units(kind, [Unit("(all)", "(all)")]), [0] * size
    tokens = tokenizer.convert_ids_to_tokens(list(range(size)))
    tokens = [f"<unused id {i}>" if token is None else token for i, token in enumerate(tokens)]
    read, continuation = _reader(tokenizer), continuation_mark(tokenizer)
    if kind == "id":
        keys = _make_distinct(tokens)
        shown = [token if number in special else read(token) for number, token in enumerate(tokens)]
        known = [Unit(key, text, i, i in special) for i, (key, text) in enumerate(zip(keys, shown, strict=True))]
        return Units(kind, known), list(range(size))
    units, codes = Units(kind), []
    for number, token in enumerate(tokens):
        is_special = number in special
        if kind == "surface":
            key = token if is_special else strip_marks(token, continuation)
            codes.append(units.add(Unit(key, token if is_special else read(key), None, is_special)))
        else:
            codes.append(units.add(Unit(token, token, None, True)) if is_special else -1)
    return units, codes


def _make_distinct(tokens: Sequence[str]) -> list[str]:
    """Return the tokens, with their id where an earlier one is the same.

    >>> _make_distinct(["a", "b", "a"])
    ['a', 'b', 'a (id 2)']
    """
    if len(set(tokens)) == len(tokens):
        return list(tokens)
    seen: set[str] = set()
    keys = []
    for number, token in enumerate(tokens):
        key = token
        while key in seen:
            key = f"{key} (id {number})"
        seen.add(key)
        keys.append(key)
    return keys


def token_level(tokenizer: Any) -> str:
    """Return "token" if the tokens of a tokenizer are parts of words, "character" if characters or bytes."""
    return "token" if tokenizer.is_fast and len(tokenizer) >= CHARACTERS else "character"


def special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of special tokens, without the unknown token, which stands for text.

    Special are those with a role, and those that the tokenizer has added as special, such as what a chat template
    writes around messages. A token with several roles, as in the vocabulary of GPT-2, stays special.
    """
    names = ("bos_token_id", "eos_token_id", "sep_token_id", "pad_token_id", "cls_token_id", "mask_token_id")
    other = {getattr(tokenizer, name, None) for name in names}
    added = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    return (added | set(tokenizer.all_special_ids)) - ({tokenizer.unk_token_id} - other)


def strip_marks(token: str, continuation: str = "") -> str:
    """Return the token without its continuation or space mark, unless nothing would remain.

    >>> strip_marks("##ing", "##"), strip_marks("Ġthe"), strip_marks("▁")
    ('ing', 'the', '▁')
    """
    bare = token.removeprefix(continuation)
    for mark in SPACE_MARKS:
        bare = bare.removeprefix(mark)
    return bare or token


def continuation_mark(tokenizer: Any) -> str:
    """Return the prefix of tokens that continue a word: "##" in WordPiece vocabularies, else empty."""
    if not tokenizer.is_fast:
        return ""
    return str(getattr(tokenizer.backend_tokenizer.model, "continuing_subword_prefix", None) or "")


def _reader(tokenizer: Any) -> Callable[[str], str]:
    """Return a function from a token to readable text."""
    if not tokenizer.is_fast:  # characters unchanged; a byte that is not a character as \\xe2
        bytes_only = len(tokenizer) < CHARACTERS
        return lambda token: f"\\x{ord(token):02x}" if bytes_only and "\x7f" < token <= "\xff" else token
    if "ByteLevel" in str(tokenizer.backend_tokenizer.decoder):
        to_byte = {character: byte for byte, character in byte_alphabet().items()}

        def read_bytes(token: str) -> str:
            if not all(character in to_byte for character in token):
                return token
            # A part of a character is shown as bytes: \xe2\x80.
            return bytes(to_byte[character] for character in token).decode("utf-8", "backslashreplace")

        return read_bytes
    return lambda token: token.replace("▁", " ")


def byte_alphabet() -> dict[int, str]:
    """Return the printable character of each byte in byte-level vocabularies.

    Printable bytes represent themselves; the others are numbered from U+0100.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


Integers = NDArray[np.int64]


class Words(NamedTuple):
    """The rows of a window: tokens, or words of several tokens."""

    code: Integers  # (rows,) the code of the unit
    of_token: Integers  # (counted tokens,) the row that each token belongs to
    first: Integers  # (rows,) position of its first token in the window
    last: Integers  # (rows,) position of its last


ReadWord = Callable[[str], str]


def find_case_folding(tokenizer: Any) -> ReadWord | None:
    """Return how an uncased tokenizer reads a word, such as "The" as "the"; None if it distinguishes case.

    To an uncased model both are the same ids, so they are one unit. If it drops accents too, so do its units.
    """
    normalizer = tokenizer.backend_tokenizer.normalizer if tokenizer.is_fast else None
    if normalizer is None or normalizer.normalize_str("A") != normalizer.normalize_str("a"):
        return None

    def read(word: str) -> str:
        try:
            return str(normalizer.normalize_str(word)).strip(" ▁") or word
        except UnicodeEncodeError:  # a lone surrogate
            return word

    return read


def group_words(
    window: Window,
    counted: Integers,
    text: str,
    units: Units,
    special_codes: Integers,
    read: ReadWord | None = None,
) -> Words:
    """Group a window's counted tokens into words. A special token is a word of its own.

    Words are those of the tokenizer, and end at white space even if the tokenizer has no words (for that of Llama
    2 a document is one word). A word that is cut by the end of a window counts as two, each with its part of the
    text. `read` returns a word as the tokenizer reads it (see `find_case_folding`).
    """
    assert window.words is not None
    assert window.spans is not None
    numbers, spans = window.words[counted], window.spans[counted]
    starts = np.ones(len(counted), dtype=bool)
    if len(counted) > 1:
        runs = _number_runs(text, spans[:, 0], numbers >= 0)
        starts[1:] = (numbers[1:] != numbers[:-1]) | (numbers[1:] < 0) | (runs[1:] != runs[:-1])
    of_token = np.cumsum(starts) - 1
    begins = np.flatnonzero(starts)
    ends = np.append(begins[1:], len(counted))[: len(begins)] - 1  # a window may have no counted token
    codes = np.empty(len(begins), dtype=np.int64)
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if numbers[begin] < 0:
            codes[row] = special_codes[window.ids[counted[begin]]]
        else:
            covered = text[spans[begin, 0] : spans[end, 1]]
            word = covered.strip() or covered
            word = word if read is None else read(word)
            codes[row] = units.add(Unit(word, word, None, False, float(end - begin + 1)))
    return Words(codes, of_token.astype(np.int64), counted[begins], counted[ends])


def _number_runs(text: str, at: Integers, real: NDArray[np.bool_]) -> Integers:
    """Number the runs without white space in which tokens begin; white space belongs to the run after it.

    Special tokens have no place in the text and get 0. All (tokens,).
    """
    runs = np.zeros(len(at), dtype=np.int64)
    if real.any():
        low, high = int(at[real].min()), int(at[real].max()) + 1
        space = np.array([*map(str.isspace, text[low:high]), True])[: high - low]
        begins = ~space & np.append(True, space[:-1])
        runs[real] = (np.cumsum(begins) + space)[at[real] - low]
    return runs
