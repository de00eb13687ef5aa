"""The vocabulary as units: by id, by surface, or by word."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.units import Unit, Units

KINDS = ("id", "surface", "word")
CHARACTERS = 512  # a vocabulary of fewer tokens is one of characters or bytes
SPACE_MARKS = ("Ġ", "▁")


def vocabulary(tokenizer: Any, kind: str, *, start: int | None = None) -> tuple[Units, list[int]]:
    """Return the units of this kind, and the unit's code for every vocabulary id.

    `word` begins with the special tokens alone and grows as words are met. `start`, with which a decoder begins,
    is special whatever the tokenizer says of it.
    """
    if kind not in KINDS:
        raise InputError(f"--units {kind!r} is not one of {', '.join(KINDS)}.")
    if kind == "word" and not tokenizer.is_fast:
        raise InputError(
            f"--units word: {type(tokenizer).__name__} reads characters or bytes and knows no words; "
            "use --units id."
        )
    special = special_ids(tokenizer) | (set() if start is None else {start})
    size = max([*tokenizer.get_vocab().values(), *special]) + 1  # len(tokenizer) is less where ids have gaps
    tokens = tokenizer.convert_ids_to_tokens(list(range(size)))
    tokens = [f"<unused id {i}>" if token is None else token for i, token in enumerate(tokens)]
    read, continuation = _reader(tokenizer), continuation_mark(tokenizer)
    units, codes = Units(kind), []
    for number, token in enumerate(tokens):
        is_special = number in special
        if kind == "id":
            key = token if units.code(token) is None else f"{token} (id {number})"
            codes.append(units.add(Unit(key, token if is_special else read(token), number, is_special)))
        elif kind == "surface":
            key = token if is_special else surface(token, continuation)
            codes.append(units.add(Unit(key, token if is_special else read(key), None, is_special)))
        else:
            codes.append(units.add(Unit(token, token, None, True)) if is_special else -1)
    return units, codes


def level(tokenizer: Any) -> str:
    """Say whether a tokenizer's tokens are parts of words, or single characters or bytes."""
    return "token" if tokenizer.is_fast and len(tokenizer) >= CHARACTERS else "character"


def special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of special tokens, without the unknown one: that stands for text.

    Where one token plays several parts, as in GPT-2's vocabulary, it stays special.
    """
    names = ("bos_token_id", "eos_token_id", "sep_token_id", "pad_token_id", "cls_token_id", "mask_token_id")
    other = {getattr(tokenizer, name, None) for name in names}
    return set(tokenizer.all_special_ids) - ({tokenizer.unk_token_id} - other)


def surface(token: str, continuation: str = "") -> str:
    """Return the token without the mark of continuation or of a space, unless nothing would be left.

    >>> surface("##ing", "##"), surface("Ġthe"), surface("▁")
    ('ing', 'the', '▁')
    """
    bare = token.removeprefix(continuation)
    for mark in SPACE_MARKS:
        bare = bare.removeprefix(mark)
    return bare or token


def continuation_mark(tokenizer: Any) -> str:
    """Return what marks a token that continues a word: "##" in WordPiece vocabularies, else nothing."""
    if not tokenizer.is_fast:
        return ""
    return str(json.loads(tokenizer.backend_tokenizer.to_str())["model"].get("continuing_subword_prefix") or "")


def _reader(tokenizer: Any) -> Callable[[str], str]:
    """Return a function from a token's spelling to what a person reads."""
    if not tokenizer.is_fast:  # characters as they are; a byte that is no character by itself as \\xe2
        bytes_only = len(tokenizer) < CHARACTERS
        return lambda token: f"\\x{ord(token):02x}" if bytes_only and "\x7f" < token <= "\xff" else token
    if "ByteLevel" in str(tokenizer.backend_tokenizer.decoder):
        to_byte = {character: byte for byte, character in _byte_alphabet().items()}

        def read_bytes(token: str) -> str:
            if not all(character in to_byte for character in token):
                return token
            # A fragment of a character is shown as far as it goes: \xe2\x80.
            return bytes(to_byte[character] for character in token).decode("utf-8", "backslashreplace")

        return read_bytes
    return lambda token: token.replace("▁", " ")


def _byte_alphabet() -> dict[int, str]:
    """Return the printable character that stands for each byte in byte-level vocabularies.

    Bytes that print stand for themselves; the others are numbered upwards from U+0100.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}
