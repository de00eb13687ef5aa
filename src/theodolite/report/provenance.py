"""Where the numbers come from: `survey.json` laid out to be read, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from theodolite.naming import several
from theodolite.report.numbers import UNDEFINED
from theodolite.report.text import escape

FIRST = ("model", "tokenizer", "corpus", "units", "populations", "pilot", "counts", "versions", "times")
LONGEST_LIST = 20
LONGEST_TEXT = 400
_DIGEST = re.compile(r"[0-9a-f]{32,128}")


def provenance(facts: Mapping[str, Any], level: int = 3) -> str:
    """Return the facts as a small table a section, its heading of that level: known ones first, then the rest."""
    if not facts:
        return "<p>The survey came without its survey.json.</p>"
    loose = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    nested = {key: value for key, value in facts.items() if isinstance(value, Mapping)}
    order = [key for key in FIRST if key in nested] + [key for key in nested if key not in FIRST]
    sections = [_section(str(key), nested[key], level) for key in order]
    return f'<div class="facts">{_section("survey", loose, level)}{"".join(sections)}</div>'


def flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Walk nested mappings as (dotted key, value).

    >>> list(flat({"filters": {"least": 3}, "seed": 0}))
    [('filters.least', 3), ('seed', 0)]
    """
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from flat(inner, f"{before}{key}.")
        else:
            yield f"{before}{key}", inner


def _section(title: str, values: Mapping[str, Any], level: int) -> str:
    if not values:
        return ""
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{_value(value)}</dd>" for key, value in flat(values))
    return f"<section><h{level}>{escape(title)}</h{level}><dl>{rows}</dl></section>"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        if any(isinstance(one, Mapping) for one in value):  # a table of its own: survey.json has it
            return several(len(value), "entry", "entries")
        more = f" … and {len(value) - LONGEST_LIST} more" if len(value) > LONGEST_LIST else ""
        return ", ".join(_value(one) for one in value[:LONGEST_LIST]) + more or UNDEFINED
    if value is None or value == {} or value == "":
        return UNDEFINED
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    shown = escape(text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…")
    return f"<code>{shown}</code>" if _DIGEST.fullmatch(text) else shown
