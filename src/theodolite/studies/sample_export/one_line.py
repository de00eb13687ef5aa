"""A token on one line of a table with tabs, as a viewer in JavaScript will read it."""

from __future__ import annotations

import json
import re
import unicodedata

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
"""Unicode's categories of what breaks a line, turns its direction, shows nothing, or is no character."""
NUMBER = re.compile(
    r"[+-]?(Infinity|NaN|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+"
)
MARK = {"\u200d", "\ufe0f"}  # within an emoji


def one_line(text: str) -> str:
    r"""Return the text itself, or quoted as in JSON where it would break a row or be taken for something else.

    The projector takes an empty cell for none, spaces for 0 and "007" for 7, and splits at tabs and newlines. What
    cannot be seen, and what turns the direction of the line, is written as an escape. No two texts become one.

    >>> print(one_line("the"), one_line("a\tb"), one_line("\u202e"), one_line(""), one_line("007"), one_line(" "))
    the "a\tb" "\u202e" "" "007" " "
    """
    plain = text.strip() and not text.startswith('"') and not NUMBER.fullmatch(text.strip())
    if plain and not any(map(_hidden, text)):
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in HIDDEN and character not in MARK


def _escaped(character: str) -> str:
    if character in '"\\' or _hidden(character):
        return json.dumps(character)[1:-1]
    return character
