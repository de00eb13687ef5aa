"""Comments, elements and tags: what stands between angle brackets."""

import re

from theodolite.sources.catalogue.wikitext.pairs import cut_pairs

# What these hold is code, media, formulas or notes, not sentences of the article.
REMOVED = (
    "code gallery hiero imagemap includeonly inputbox math pre ref references score script source style "
    "syntaxhighlight timeline"
).split()
# Known by name, since a "<" in a text may stand for itself.
TAGS = (
    "a abbr b big blockquote body br caption center cite col dd del dfn div dl dt em embed font form "
    "gallery h1 h2 h3 h4 h5 h6 head hr html i img input ins kbd li link math meta nobr noinclude nowiki "
    "object ol onlyinclude p param pre q rb rp rt ruby s samp small span strike strong sub sup table "
    "tbody td tfoot th thead title tr tt u ul var wbr"
).split()
_BLOCKS = "blockquote br caption center dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p table td th title tr ul".split()
_OPENING = re.compile(rf"<!--|<(?P<name>nowiki|{'|'.join(REMOVED)})\b[^<>]*>", re.IGNORECASE)
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("nowiki", *REMOVED)} | {
    "!--": re.compile(r"-->|\Z")
}
_TABLE = re.compile(r"(?P<open><table\b[^<>]*>)|</table\s*>", re.IGNORECASE)
_TAG = re.compile(rf"</?(?P<name>{'|'.join({*TAGS, *REMOVED})})\b[^<>]*>", re.IGNORECASE)
# What nowiki holds is text whatever it looks like: it passes the other rules in the disguise of private letters.
_MARKUP = "[]{}|'<>=*:_/!-"
_SHIELD = {ord(sign): 0xE000 + index for index, sign in enumerate(_MARKUP)}
_UNSHIELD = {private: sign for sign, private in _SHIELD.items()}


def cut_elements(text: str) -> str:
    """Remove comments, and the elements that hold no sentences; shield what nowiki holds.

    A comment that nobody closed runs to the end of the page, as in the wiki; an element that nobody closed loses
    its tag only.

    >>> cut_elements("a<!-- x -->b<ref name='n'/>c<ref>d</ref>")
    'abc'
    """
    kept: list[str] = []
    unclosed: set[str] = set()  # what is not closed after one place is not closed after a later one either
    end = 0
    # One scan from left to right, as the wiki itself reads: a comment within nowiki is none, and the reverse.
    while opening := _OPENING.search(text, end):
        kept.append(text[end : opening.start()])
        name, end = (opening["name"] or "!--").lower(), opening.end()
        if opening[0].endswith("/>"):
            continue
        closing = None if name in unclosed else _CLOSING[name].search(text, end)
        if closing is None:
            unclosed.add(name)
            continue
        if name == "nowiki":
            kept.append(text[end : closing.start()].translate(_SHIELD))
        end = closing.end()
    kept.append(text[end:])
    return "".join(kept)


def cut_tags(text: str) -> str:
    """Remove tables written in HTML, and all other tags but not what they enclose.

    >>> cut_tags("H<sub>2</sub>O, a < b<br/>new")
    'H2O, a < b\\nnew'
    """
    return _TAG.sub(_between, cut_pairs(text, _TABLE, "\n"))


def unshield(text: str) -> str:
    """Give what nowiki held its own letters back."""
    return text.translate(_UNSHIELD)


def _between(tag: re.Match[str]) -> str:
    return "\n" if tag["name"].lower() in _BLOCKS else ""
