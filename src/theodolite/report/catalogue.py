"""The catalogue of measures: the menus of the page, and the formula and definition behind each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from theodolite.escaping import escape_html
from theodolite.measures.columns import OTHER, find_column, group_columns
from theodolite.measures.formula import formulas
from theodolite.report.inline_assets import read_mathml
from theodolite.report.tables import BOUNDED, LIMITS, SHARES, Tables, populations
from theodolite.report.vectors import are_vector_surveys, reword_for_vectors


def find_formula_id(tables: Tables, column: str) -> str:
    """Return the formula id of a column: as the survey recorded it, else of this version; empty if it has none."""
    recorded = tables.facts.get("formulas")
    layers = recorded.get("layers") if isinstance(recorded, Mapping) else None
    formula = layers.get(column) if isinstance(layers, Mapping) else None
    return formula if isinstance(formula, str) and formula else find_column(column).formula


MENU = {group: [column.name for column in columns] for group, columns in group_columns().items() if group != OTHER}
"""The columns that the menus always offer, by group."""


def list_measures(surveys: list[Tables], formulas: dict[str, str]) -> list[dict[str, object]]:
    """Return the groups with the columns that a survey has; `formulas` has the formula id of each column.

    An entry is column, title, meaning, link to the definition, whether values are between 0 and 1, and limits.
    """
    present = [str(column) for tables in surveys for column in tables.layers.columns if populations(tables)]
    named = {column for columns in MENU.values() for column in columns}
    other = [
        column
        for column in dict.fromkeys(present)
        if column in formulas and column not in named and not column.endswith(("_se", "_sd"))
    ]
    reword = reword_for_vectors if are_vector_surveys(surveys) else str
    return [
        {
            "group": group,
            "columns": [
                (
                    column,
                    reword(find_column(column).title),
                    reword(find_column(column).meaning),
                    definition_link(formulas[column]) if column in formulas else "",
                    column in BOUNDED,
                    LIMITS.get(column),
                )
                for column in columns
                if column in present
            ],
        }
        for group, columns in (MENU | {OTHER: other}).items()
    ]


def definition_link(formula: str) -> str:
    """Return the link to a formula's definition on the page.

    >>> definition_link("mean-cosine/exact")
    '#definition-mean-cosine-exact'
    """
    return "#definition-" + "".join(sign if sign.isalnum() else "-" for sign in formula)


def find_formulas(surveys: list[Tables]) -> dict[str, str]:
    """Return the formula id of every column of the surveys, where this version defines the formula."""
    known = formulas()
    found: dict[str, str] = {}
    for tables in surveys:
        for column in map(str, tables.layers.columns):
            formula = find_formula_id(tables, SHARES[column][0] if column in SHARES else column)
            if formula in known:
                found.setdefault(column, formula)
    return found


def render_definitions(formula_ids: dict[str, str], also: Iterable[str] = ()) -> str:
    """Return definitions as HTML: of the formula id of each column, and of those in `also`."""
    known = formulas()
    columns: dict[str, list[str]] = {formula: [] for formula in also}
    for column, formula in formula_ids.items():
        columns.setdefault(formula, []).append(column)
    entries = "".join(
        f'<dt id="{definition_link(formula)[1:]}"><code>{escape_html(formula)}</code></dt>'
        f"<dd>{escape_html(known[formula].definition)}</dd>{_typeset(formula)}"
        f'<dd class="cite">{_list_columns(columns[formula])}'
        f"Cost: {escape_html(known[formula].cost)}. {escape_html(known[formula].citation)}</dd>"
        for formula in sorted(columns)
        if formula in known
    )
    return f'<dl class="definitions">{entries}</dl>' if entries else ""


def _typeset(formula: str) -> str:
    """Return the formula as MathML, as on the page of measures in the documentation; empty if it has none."""
    found = read_mathml().get(formula, "")
    return f'<dd class="formula" tabindex="0" role="group" aria-label="Formula">{found}</dd>' if found else ""


def _list_columns(columns: list[str]) -> str:
    names = ", ".join(f"<code>{escape_html(name)}</code>" for name in sorted(columns))
    return f"Columns: {names}. " if names else ""
