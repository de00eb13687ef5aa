"""Words of ours as Markdown: nothing in them is taken for emphasis, a tag or a link."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, but for `code` in backticks.

    >>> print(plain("_low <= *c*, <b> and `d_*`"))
    \\_low <= \\*c\\*, &lt;b> and `d_*`
    """
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and Markdown make it.

    >>> slug("`what-if`"), slug("A model's tables")
    ('what-if', 'a-models-tables')
    """
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _escaped(text: str) -> str:
    text = re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)
    return re.sub(r"(?<!\w)_|_(?!\w)|[*\[\]]", r"\\\g<0>", text)
