"""The definitions of what the page shows: formula, citation and cost, in the page itself."""

from __future__ import annotations

from collections.abc import Iterable

from theodolite.measures.formula import formulas
from theodolite.report.catalogue import anchor
from theodolite.report.text import escape


def definitions(wanted: dict[str, str], also: Iterable[str] = ()) -> str:
    """Return formulas as HTML, by id: `wanted` tells that of each column, `also` names more that are linked to."""
    known = formulas()
    columns: dict[str, list[str]] = {formula: [] for formula in also}
    for column, formula in wanted.items():
        columns.setdefault(formula, []).append(column)
    entries = "".join(
        f'<dt id="{anchor(formula)[1:]}"><code>{escape(formula)}</code></dt>'
        f"<dd>{escape(known[formula].definition)}</dd>"
        f'<dd class="cite">{_listed(columns[formula])}'
        f"Cost: {escape(known[formula].cost)}. {escape(known[formula].citation)}</dd>"
        for formula in sorted(columns)
        if formula in known
    )
    return f'<dl class="definitions">{entries}</dl>' if entries else ""


def _listed(columns: list[str]) -> str:
    names = ", ".join(f"<code>{escape(name)}</code>" for name in sorted(columns))
    return f"Columns: {names}. " if names else ""
