"""theodolite measures: every formula, by theme and id; also as the page docs/measures.md."""

from __future__ import annotations

import json as encoder
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from theodolite.cli.markdown import escape_markdown, slug
from theodolite.measures.formula import Formula, formulas, group_by_theme, theme_of
from theodolite.measures.latex import LATEX
from theodolite.measures.references import REFERENCES, find_references


def measures(
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print as Markdown (docs/measures.md).")] = False,
) -> None:
    """List every measure: formula id, columns, definition, cost, citation, error bar."""
    from theodolite.cli.console import print_result

    every = formulas().values()
    if json:
        rows = [{**asdict(one), "theme": theme_of(one.id).title, "anchor": one.anchor} for one in every]
        print_result(encoder.dumps(rows))
        return
    if markdown:
        print_result(measures_page(every))
        return
    for theme, of_theme in group_by_theme(every).items():
        print_result(f"{theme.title.upper()}\n")
        for formula in of_theme:
            print_result("\n".join(_lines(formula)) + "\n")


def _lines(formula: Formula) -> list[str]:
    facts = {
        "columns": ", ".join(formula.columns),
        "": formula.definition,
        "cost": formula.cost,
        "cited": formula.citation,
        "error": formula.error,
    }
    return [formula.id, *(f"  {name + ': ' if name else ''}{text}" for name, text in facts.items() if text)]


HEAD = """\
# Measures

The same word means different formulas in different tools, so every number names its formula: the ids below are
in the metadata of every Parquet column and in `survey.json`. A column `tokens.q` is the column `q` of the table
`tokens` only; a plain `q` is that of every other table. An undefined number is null, with the reason in the
column `undefined`.

x is a vector, E the mean over the vectors of a population, |x| the Euclidean norm, λ the eigenvalues of the
covariance, s the singular values of the centred vectors, d the number of coordinates.

This page is what `theodolite measures --markdown` prints."""


def measures_page(found: Iterable[Formula]) -> str:
    """Return the formulas as a page of Markdown, by theme, with the works they cite."""
    every = list(found)
    themes = group_by_theme(every)
    lines = [HEAD, ""]
    lines += [f"- [{theme.title}](#{slug(theme.title)}): {_ids(of_theme)}" for theme, of_theme in themes.items()]
    lines += ["- [Columns](#columns), [references](#references)"]
    for theme, of_theme in themes.items():
        lines += ["", f"## {theme.title}"]
        lines += ["", theme.description] if theme.description else []
        for formula in of_theme:
            lines += _entry(formula)
    return "\n".join([*lines, *_columns(every), *_references(every)])


def _entry(formula: Formula) -> list[str]:
    """Return the heading, definition, formula and facts of one measure."""
    lines = ["", f"### `{formula.id}`", "", escape_markdown(formula.definition), ""]
    if formula.id in LATEX:
        lines += ["```math", LATEX[formula.id], "```", ""]
    lines += [f"- **Columns**: {', '.join(f'`{column}`' for column in formula.columns)}"]
    lines += [f"- **Cost**: {escape_markdown(formula.cost)}"]
    lines += [f"- **Error bar**: {escape_markdown(formula.error)}"] if formula.error else []
    return [*lines, f"- **Source**: {_citation(formula.citation)}"]


def _columns(every: list[Formula]) -> list[str]:
    """Return the table of all columns with the formula of each."""
    rows = sorted((column, formula) for formula in every for column in formula.columns)
    lines = ["", "## Columns", "", "| column | formula |", "|---|---|"]
    return lines + [f"| `{column}` | [`{formula.id}`](#{formula.anchor}) |" for column, formula in rows]


def _references(every: list[Formula]) -> list[str]:
    """Return the list of works cited."""
    used = {work.key for formula in every for work, _ in find_references(formula.citation)}
    lines = [f'- <a id="{work.key}"></a>{escape_markdown(work.full)}' for work in REFERENCES if work.key in used]
    return ["", "## References", "", *sorted(lines, key=lambda line: line.partition("</a>")[0])]


def _citation(text: str) -> str:
    """Return a citation with a link to each work in the list of references."""
    for work, words in find_references(text):
        text = text.replace(words, f"[{words}](#{work.key})", 1)
    return text


def _ids(of_theme: list[Formula]) -> str:
    stems = dict.fromkeys(formula.id.partition("/")[0] for formula in of_theme)
    return ", ".join(f"`{stem}`" for stem in stems)
