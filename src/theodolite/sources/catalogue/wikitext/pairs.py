"""Brackets that nest: take out each outermost pair with what it holds."""

import re


def cut_pairs(text: str, marks: re.Pattern[str], put: str = "") -> str:
    """Remove every stretch from an opening mark to the closing one that belongs to it.

    A match of `marks` opens if its group "open" took part, else it closes. A mark without a partner is removed
    alone, so that what one author forgot to close does not take the rest of a page with it. Linear in the text.

    >>> marks = re.compile(r"(?P<open>[(])|[)]")
    >>> cut_pairs("a (b (c) d) e (f (g) h", marks)
    'a  e f  h'
    """
    kept: list[str] = []
    opened: list[int] = []  # where in `kept` each open mark stands
    end = 0
    for mark in marks.finditer(text):
        kept.append(text[end : mark.start()])
        end = mark.end()
        if mark["open"] is not None:
            opened.append(len(kept))
        elif opened:
            del kept[opened.pop() :]
            kept.append(put)
    kept.append(text[end:])
    return "".join(kept)
