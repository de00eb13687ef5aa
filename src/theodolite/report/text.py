"""Text from outside made fit for a page: all of it visible, escaped and possible to encode."""

from __future__ import annotations

import html
import unicodedata
from itertools import groupby

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


def escape(text: object) -> str:
    """Escape prose for HTML, text or attribute: spaces stay, what cannot be seen or encoded is spelled out."""
    return html.escape("".join(_kept(char) for char in str(text)), quote=True)


def readable(token: str) -> str:
    """Return a token as HTML: unseen characters as dim marks, long ones cut, its own direction kept to itself."""
    if not token:
        return '<span class="mark">(empty)</span>'
    shown, cut = token[:LONGEST], len(token) > LONGEST
    pieces = "".join(
        _piece(marked, list(run)) for marked, run in groupby(shown, key=lambda char: bool(mark(char)))
    )
    # A combining character with nothing to stand on would land on whatever precedes the token.
    seat = "◌" if unicodedata.category(token[0]).startswith("M") else ""
    tail = f'<span class="mark">… {len(token)} characters</span>' if cut else ""
    return f"<bdi>{seat}{pieces}</bdi>{tail}"


def spelled(unit: str) -> str:
    """Return a tokenizer's own spelling with its leading space mark as a space, for units that have no text.

    >>> spelled("Ġthe"), spelled("▁the"), spelled("##ing")
    (' the', ' the', '##ing')
    """
    return " " + unit[1:] if unit[:1] in ("Ġ", "▁") else unit


def _piece(marked: bool, run: list[str]) -> str:
    if not marked:
        return html.escape("".join(run), quote=True)
    return f'<span class="mark">{"".join(mark(char) for char in run)}</span>'


def _kept(char: str) -> str:
    return char if char in " \n\t\u00a0" else mark(char) or char
