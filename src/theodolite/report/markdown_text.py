"""Text from outside made fit for GitHub's Markdown: it shows as what it is, and calls nobody.

A name such as `@someone`, `#12` or `www.example.org` in a comment would notify a person or make a link, so these
are broken by a space of no width; a token stands in `<code>`, where nothing is looked for.
"""

from __future__ import annotations

import re

from theodolite.report.text import mark, plain, visible

LONGEST_NAME = 120
_NO_WIDTH = "&#8203;"
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": f"@{_NO_WIDTH}", "$": "<span>$</span>"}
_SIGNS = set("\\`*_[]|~")


def prose(text: object) -> str:
    """Return a sentence, whatever stands in it, as Markdown on one line.

    >>> print(prose("a|b *c* <i> @you #12 V_W"))
    a\\|b \\*c\\* &lt;i&gt; @&#8203;you \\#&#8203;12 V\\_W
    """
    made = "".join(_HTML.get(char) or (f"\\{char}" if char in _SIGNS else char) for char in _line(text))
    return _unlinked(re.sub(r"(?<!&)#(?!\d+;)", r"\\#", _numbered(made)))


def inside_html(text: object) -> str:
    """Return a sentence as it stands between HTML tags, where Markdown is not read.

    >>> inside_html("<b>|@you")
    '&lt;b&gt;|@&#8203;you'
    """
    return _unlinked(_numbered("".join(_HTML.get(char, char) for char in _line(text))))


def token(text: str) -> str:
    """Return a token as code: every character of it seen, none of it read as Markdown.

    >>> token("a|`b")
    '<code>a&#124;&#96;b</code>'
    """
    shown = "".join(char if char.isalnum() or ord(char) > 127 else f"&#{ord(char)};" for char in visible(text))
    return f"<code>{shown}</code>"


def name(text: object) -> str:
    """Return a name, cut where it is very long; not escaped yet."""
    shown = plain(text)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"


def code(text: object) -> str:
    """Return a short word of ours or an id as code.

    >>> code("mean-cosine/all-pairs")
    '`mean-cosine/all-pairs`'
    """
    word = _line(text)
    return f"`{word}`" if re.fullmatch(r"[\w./ +:-]+", word) else token(word)


def _line(text: object) -> str:
    """Return the text on one line: a line break would end a table's row or begin a heading."""
    return "".join(mark(char) if char in "\n\t" else " " if char == "\u00a0" else char for char in plain(text))


def _numbered(made: str) -> str:
    return re.sub(r"(?<!&)#(?=\d)", f"#{_NO_WIDTH}", made)


def _unlinked(made: str) -> str:
    return re.sub(r"(?i)\bwww\.", lambda found: f"{found[0][:-1]}&#46;", made.replace("://", "&#58;//"))
