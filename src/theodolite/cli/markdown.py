"""Escape text for Markdown, so that it is not read as emphasis, a tag or a link; anchors of headings."""

from __future__ import annotations

import re


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows literally, except for `code` in backticks.

    >>> print(escape_markdown("_low <= *c*, <b> and `d_*`"))
    \\_low <= \\*c\\*, &lt;b> and `d_*`
    """
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and Python-Markdown make it.

    >>> slug("`what-if`"), slug("A model's tables")
    ('what-if', 'a-models-tables')
    """
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _escaped(text: str) -> str:
    text = re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)
    return re.sub(r"(?<!\w)_|_(?!\w)|[*\[\]]", r"\\\g<0>", text)
