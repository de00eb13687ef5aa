"""Text from outside made fit for a page: all of it visible, escaped and possible to encode."""

from __future__ import annotations

import html
import unicodedata

LONGEST = 40
_DRAWN = {" ": "␣", "\n": "↵", "\t": "⇥"}
_UNNAMED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}


def mark(char: str) -> str:
    """Return what stands for a character that cannot be seen; empty for one that can.

    >>> [mark(c) for c in (" ", chr(10), chr(0x202E), chr(0xD800), "a")]
    ['␣', '↵', 'U+202E', 'U+D800', '']
    """
    if char in _DRAWN:
        return _DRAWN[char]
    return f"U+{ord(char):04X}" if unicodedata.category(char) in _UNNAMED else ""


def plain(text: object) -> str:
    """Return prose that can be shown and encoded: spaces stay, what cannot be seen is spelled out."""
    return "".join(_kept(char) for char in str(text))


def escape(text: object) -> str:
    """Escape prose for HTML, text or attribute."""
    return html.escape(plain(text), quote=True)


def visible(token: str) -> str:
    """Return a token as plain text for the page's script: every character seen, long ones cut.

    >>> visible(" the"), visible(""), visible("x" * 50)[-15:], visible(chr(0x202E))
    ('␣the', '(empty)', '… 50 characters', 'U+202E')
    """
    if not token:
        return "(empty)"
    seat = "◌" if unicodedata.category(token[0]).startswith("M") else ""
    tail = f"… {len(token)} characters" if len(token) > LONGEST else ""
    return seat + "".join(mark(char) or char for char in token[:LONGEST]) + tail


def spelled(unit: str) -> str:
    """Return a tokenizer's own spelling with its leading space mark as a space, for units that have no text.

    >>> spelled("Ġthe"), spelled("▁the"), spelled("##ing")
    (' the', ' the', '##ing')
    """
    return " " + unit[1:] if unit[:1] in ("Ġ", "▁") else unit


def _kept(char: str) -> str:
    return char if char in " \n\t\u00a0" else mark(char) or char
