"""Marks that belong to lines and words: headings, lists, rules, bold, switches; and white space."""

import re

_QUOTES = re.compile("'{2,}")
_HEADING = re.compile(r"^=+[ \t]*(.*?)[ \t]*=+[ \t]*$", re.MULTILINE)
# Text on the line of a heading makes it none for the wiki, but its author meant one.
_RUN_ON = re.compile(r"^(={2,})[ \t]*([^=\n]+?)[ \t]*\1", re.MULTILINE)
_LIST = re.compile(r"^[ \t]*[*#:;]+[ \t]*", re.MULTILINE)
_RULE = re.compile(r"^-{4,}", re.MULTILINE)
# Cells and rows of a table that nobody closed or opened.
_CELL = re.compile(r"^[ \t]*(?:\|[^\n]*|!(?=[^\n]*(?:\||!!))[^\n]*)$", re.MULTILINE)
_SWITCH = re.compile(r"__[A-Z]+__")
_INDENT = re.compile(r"^ (?=.*\S)", re.MULTILINE)
_SPACES = re.compile(r"[ \t\u00a0\u2002\u2003\u2009]+")  # among them what &nbsp; &ensp; &emsp; stand for
_BLANK = re.compile(r"\n(?:[ \t]*\n)+")
# What is left of brackets whose template, formula or address was removed.
_HOLLOW = re.compile(r"[ \t]*\([ \t]*[,;:.]*[ \t]*\)|(?<!\w)[ \t]*\[[ \t]*\]")
_BEGUN = re.compile(r"\([ \t]*[,;][ \t]*|\([ \t]+")
_BEFORE = re.compile(r"[ \t]+(?=[,)]|\.(?:\s|$))", re.MULTILINE)
PREFORMATTED = "\ue0ff"
"""A private letter in place of the space with which a line of code begins."""
_CODE = re.compile(rf"^[ \t]*{PREFORMATTED}.*$", re.MULTILINE)


def mark_preformatted(text: str) -> str:
    """Mark each line that begins with a space, before any rule can bring a space to the front of another line."""
    return _INDENT.sub(PREFORMATTED, text)


def cut_quotes(text: str) -> str:
    """Remove the marks of bold and italics; the words stay.

    >>> cut_quotes("'''b''' is ''c'', the '''dog''''s")
    "b is c, the dog's"
    """
    return _QUOTES.sub(_apostrophes, text)


def cut_marks(text: str) -> str:
    """Remove lines of code and of cells, switches, and the marks of headings, lists and rules; the words stay.

    >>> cut_marks("== A ==\\n* b\\n----\\n|- d")
    'A\\nb\\n\\n'
    """
    text = _CODE.sub("", text).replace(PREFORMATTED, " ")
    text = _CELL.sub("", _SWITCH.sub("", text))
    text = _RUN_ON.sub(r"\2", _HEADING.sub(r"\1", text))
    return _LIST.sub("", _RULE.sub("", text))


def tidy(text: str) -> str:
    """Close what removal left open: hollow brackets, spaces in a row, lines with nothing on them.

    >>> tidy("  a  ( ; ) ,  b \\n \\n\\n c")
    'a, b\\n\\nc'
    """
    text = _HOLLOW.sub("", _SPACES.sub(" ", text))
    text = _BEFORE.sub("", _BEGUN.sub("(", text))
    lines = (line.strip() for line in text.split("\n"))
    return _BLANK.sub("\n\n", "\n".join(lines)).strip()


def _apostrophes(run: re.Match[str]) -> str:
    """Return the apostrophes that are text: two, three and five in a row are marks, the rest stands for itself."""
    count = len(run[0])
    return "'" * (1 if count == 4 else max(0, count - 5))
