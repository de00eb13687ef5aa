"""docs/measures.md: every formula, by theme, with the works it cites."""

from __future__ import annotations

import re
from collections.abc import Iterable

from theodolite.cli.plain_markdown import plain, slug
from theodolite.measures.formula import Formula
from theodolite.measures.references import REFERENCES, cited
from theodolite.measures.themes import by_theme
from theodolite.measures.typeset import LATEX

HEAD = """\
# Measures

Every number names its formula, since one word means different formulas in different tools: the id below stands
in the metadata of every Parquet column and in `survey.json`. A column `tokens.q` is the column `q` of that
table alone; a plain `q` is that of every other table. Where a number cannot be told it is null, with the reason
in `undefined`.

x is a vector, E the mean over the vectors of a population, |x| the Euclidean norm, λ the eigenvalues of the
covariance, s the singular values of the centred vectors, d the number of coordinates.

This page is what `theodolite measures --markdown` prints."""


def page(found: Iterable[Formula]) -> str:
    """Return the formulas as a page of Markdown."""
    every = list(found)
    themes = by_theme(every)
    lines = [HEAD, ""]
    lines += [f"- [{theme.title}](#{slug(theme.title)}): {_ids(held)}" for theme, held in themes.items()]
    lines += ["- [Columns](#columns), [references](#references)"]
    for theme, held in themes.items():
        lines += ["", f"## {theme.title}"]
        lines += ["", theme.told] if theme.told else []
        for formula in held:
            lines += _entry(formula)
    return "\n".join([*lines, *_columns(every), *_references(every)])


def _entry(formula: Formula) -> list[str]:
    """Return one formula's heading, words, formula and facts."""
    lines = ["", f"### `{formula.id}`", "", plain(formula.definition), ""]
    if formula.id in LATEX:
        lines += ["```math", LATEX[formula.id], "```", ""]
    lines += [f"- **Columns**: {', '.join(f'`{column}`' for column in formula.columns)}"]
    lines += [f"- **Cost**: {plain(formula.cost)}"]
    lines += [f"- **Error bar**: {plain(formula.error)}"] if formula.error else []
    return [*lines, f"- **Source**: {_citation(formula.citation)}"]


def _columns(found: list[Formula]) -> list[str]:
    """Return the table of all columns with the formula behind each."""
    rows = sorted((column, formula) for formula in found for column in formula.columns)
    lines = ["", "## Columns", "", "| column | formula |", "|---|---|"]
    return lines + [f"| `{column}` | [`{formula.id}`](#{formula.anchor}) |" for column, formula in rows]


def _references(found: list[Formula]) -> list[str]:
    """Return the works cited, in full."""
    used = {work.key for formula in found for work, _ in cited(formula.citation)}
    told = [f'- <a id="{work.key}"></a>{plain(work.full)}' for work in REFERENCES if work.key in used]
    return ["", "## References", "", *sorted(told, key=lambda line: line.partition("</a>")[0])]


def _citation(text: str) -> str:
    """Return a citation with a link to each work in the list of references; "here" is Theodolite."""
    text = re.sub(r"^here\b", "Theodolite", text)
    for work, words in cited(text):
        text = text.replace(words, f"[{words}](#{work.key})", 1)
    return text


def _ids(held: list[Formula]) -> str:
    stems = dict.fromkeys(formula.id.partition("/")[0] for formula in held)
    return ", ".join(f"`{stem}`" for stem in stems)
