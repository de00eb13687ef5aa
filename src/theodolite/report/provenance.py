"""The provenance of a survey: the contents of `survey.json` as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from theodolite.escaping import escape_html
from theodolite.text import UNDEFINED, pluralize

FIRST = ("model", "tokenizer", "corpus", "units", "populations", "pilot", "counts", "versions", "times")
LONGEST_LIST = 20
LONGEST_TEXT = 400
_DIGEST = re.compile(r"[0-9a-f]{32,128}")


def render_provenance(facts: Mapping[str, Any], level: int = 3) -> str:
    """Return one section per group of facts, with headings of the given level; known groups come first."""
    if not facts:
        return "<p>The survey has no survey.json.</p>"
    loose = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    nested = {key: value for key, value in facts.items() if isinstance(value, Mapping)}
    order = [key for key in FIRST if key in nested] + [key for key in nested if key not in FIRST]
    sections = [_render_section(str(key), nested[key], level) for key in order]
    return f'<div class="facts">{_render_section("survey", loose, level)}{"".join(sections)}</div>'


def flatten(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the items of nested mappings as (dotted key, value).

    >>> list(flatten({"filters": {"least": 3}, "seed": 0}))
    [('filters.least', 3), ('seed', 0)]
    """
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from flatten(inner, f"{before}{key}.")
        else:
            yield f"{before}{key}", inner


def _render_section(title: str, values: Mapping[str, Any], level: int) -> str:
    if not values:
        return ""
    rows = "".join(f"<dt>{escape_html(key)}</dt><dd>{_render_value(value)}</dd>" for key, value in flatten(values))
    return f"<section><h{level}>{escape_html(title)}</h{level}><dl>{rows}</dl></section>"


def _render_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        if any(isinstance(one, Mapping) for one in value):  # too long for this page: see survey.json
            return pluralize(len(value), "entry", "entries")
        more = f" … and {len(value) - LONGEST_LIST} more" if len(value) > LONGEST_LIST else ""
        return ", ".join(_render_value(one) for one in value[:LONGEST_LIST]) + more or UNDEFINED
    if value is None or value == {} or value == "":
        return UNDEFINED
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    shown = escape_html(text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…")
    return f"<code>{shown}</code>" if _DIGEST.fullmatch(text) else shown
