"""Escaping of text for HTML, Markdown, LaTeX and CSV: all characters visible and encodable.

In a comment on GitHub a name such as `@someone`, `#12` or `www.example.org` would notify a person or make a link.
A zero-width space breaks these; a token is in `<code>`, where GitHub does not look for them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

LONGEST = 40
_DRAWN = {" ": "␣", "\n": "↵", "\t": "⇥"}
_UNNAMED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}


def placeholder(char: str) -> str:
    """Return the visible placeholder of an invisible character; empty for a visible one.

    >>> [placeholder(c) for c in (" ", chr(10), chr(0x202E), chr(0xD800), "a")]
    ['␣', '↵', 'U+202E', 'U+D800', '']
    """
    if char in _DRAWN:
        return _DRAWN[char]
    return f"U+{ord(char):04X}" if unicodedata.category(char) in _UNNAMED else ""


def make_visible(text: object) -> str:
    """Return text that can be shown and encoded: spaces stay, invisible characters are spelled out."""
    return "".join(_visible_char(char) for char in str(text))


def escape_html(text: object) -> str:
    """Escape text for the content or an attribute of an HTML element."""
    return html.escape(make_visible(text), quote=True)


def show_token(token: str) -> str:
    """Return a token as plain text: every character visible, and long tokens cut.

    >>> show_token(" the"), show_token(""), show_token("x" * 50)[-15:], show_token(chr(0x202E))
    ('␣the', '(empty)', '… 50 characters', 'U+202E')
    """
    if not token:
        return "(empty)"
    base = "◌" if unicodedata.category(token[0]).startswith("M") else ""
    tail = f"… {len(token)} characters" if len(token) > LONGEST else ""
    return base + "".join(placeholder(char) or char for char in token[:LONGEST]) + tail


def restore_space(unit: str) -> str:
    """Return a unit without text with the tokenizer's leading space mark as a space.

    >>> restore_space("Ġthe"), restore_space("▁the"), restore_space("##ing")
    (' the', ' the', '##ing')
    """
    return " " + unit[1:] if unit[:1] in ("Ġ", "▁") else unit


def _visible_char(char: str) -> str:
    return char if char in " \n\t\u00a0" else placeholder(char) or char


LONGEST_NAME = 120
_NO_WIDTH = "&#8203;"
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": f"@{_NO_WIDTH}", "$": "<span>$</span>"}
_SIGNS = set("\\`*_[]|~")


def escape_markdown(text: object) -> str:
    """Return any sentence as Markdown on one line.

    >>> print(escape_markdown("a|b *c* <i> @you #12 V_W"))
    a\\|b \\*c\\* &lt;i&gt; @&#8203;you \\#&#8203;12 V\\_W
    """
    escaped = "".join(_HTML.get(char) or (f"\\{char}" if char in _SIGNS else char) for char in _one_line(text))
    return _break_links(re.sub(r"(?<!&)#(?!\d+;)", r"\\#", _break_references(escaped)))


def escape_summary(text: object) -> str:
    """Return a sentence for the inside of an HTML element, where Markdown is not read.

    >>> escape_summary("<b>|@you")
    '&lt;b&gt;|@&#8203;you'
    """
    return _break_links(_break_references("".join(_HTML.get(char, char) for char in _one_line(text))))


def token_code(text: str) -> str:
    """Return a token as code: every character visible, none read as Markdown.

    >>> token_code("a|`b")
    '<code>a&#124;&#96;b</code>'
    """
    shown = "".join(char if char.isalnum() or ord(char) > 127 else f"&#{ord(char)};" for char in show_token(text))
    return f"<code>{shown}</code>"


def shorten(text: object) -> str:
    """Return a name, cut if it is very long; it is not escaped yet."""
    shown = make_visible(text)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"


def inline_code(text: object) -> str:
    """Return a short word or an id as code.

    >>> inline_code("mean-cosine/all-pairs")
    '`mean-cosine/all-pairs`'
    """
    word = _one_line(text)
    return f"`{word}`" if re.fullmatch(r"[\w./ +:-]+", word) else token_code(word)


def markdown_table(head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Collection[int] = ()) -> str:
    """Return a table in Markdown, every cell escaped; columns in `numeric`, counted from 0, are aligned right.

    >>> print(markdown_table(["name", "n"], [["<b>", 2]], numeric=[1]))
    | name | n |
    | --- | ---: |
    | &lt;b&gt; | 2 |
    """
    rule = ["---:" if column in numeric else "---" for column in range(len(head))]
    escaped = ([escape_markdown(cell) for cell in row] for row in (head, *rows))
    first, *others = escaped
    return "\n".join(f"| {' | '.join(row)} |" for row in (first, rule, *others))


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


def escape_latex(text: object) -> str:
    r"""Return text for LaTeX on one line.

    >>> print(escape_latex("a_b & 5% x^2"))
    a\_b \& 5\% x\textasciicircum{}2
    """
    return "".join(_LATEX.get(char, char) for char in _one_line(text))


def latex_table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Collection[int] = (), caption: str = ""
) -> str:
    r"""Return a table for LaTeX's booktabs package, every cell escaped; `numeric` columns are aligned right.

    >>> print(latex_table(["name", "n"], [["a&b", 2]], numeric=[1]))
    \begin{tabular}{lr}
    \toprule
    name & n \\
    \midrule
    a\&b & 2 \\
    \bottomrule
    \end{tabular}
    """
    first, *others = (" & ".join(escape_latex(cell) for cell in row) + r" \\" for row in (head, *rows))
    columns = "".join("r" if column in numeric else "l" for column in range(len(head)))
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", first, r"\midrule", *others, r"\bottomrule"]
    table = [*body, r"\end{tabular}"]
    if caption:
        table = [r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(caption)}}}", *table, r"\end{table}"]
    return "\n".join(table)


def escape_formula(value: object) -> object:
    """Return a cell of a CSV file with an apostrophe before text that a spreadsheet would run as a formula.

    >>> [escape_formula(value) for value in ("=HYPERLINK(A1)", "@-@", "-", "-1.5", -1.5, "the")]
    ["'=HYPERLINK(A1)", "'@-@", '-', '-1.5', -1.5, 'the']
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


# One sign alone and numbers are harmless, and stay as they are.
_FORMULA = re.compile(r"(?![-+]?[\d.]+(e[-+]?\d+)?$)[=+\-@\t\r].", re.IGNORECASE | re.DOTALL)


def _one_line(text: object) -> str:
    """Return the text on one line: a line break would end a table row or start a heading."""
    return "".join(
        placeholder(char) if char in "\n\t" else " " if char == "\u00a0" else char for char in make_visible(text)
    )


def _break_references(escaped: str) -> str:
    return re.sub(r"(?<!&)#(?=\d)", f"#{_NO_WIDTH}", escaped)


def _break_links(escaped: str) -> str:
    return re.sub(r"(?i)\bwww\.", lambda found: f"{found[0][:-1]}&#46;", escaped.replace("://", "&#58;//"))
