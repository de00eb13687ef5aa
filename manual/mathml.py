"""Convert LaTeX to MathML: ```math fences when the site is built, and the formulas of the report as data."""

from __future__ import annotations

import json
from typing import Any


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **others: Any) -> str:
    """Return the HTML that pymdownx.superfences inserts for a fence."""
    return f'<div class="{css_class}" tabindex="0">{mathml(source)}</div>'


def mathml(latex: str) -> str:
    r"""Return LaTeX as MathML, as a displayed formula.

    >>> mathml(r"\frac{1}{n}")[:7], "mfrac" in mathml(r"\frac{1}{n}")
    ('<math x', True)
    """
    from latex2mathml.converter import convert

    return str(convert(latex.strip(), display="block"))


def formulas_file() -> str:
    """Return the formulas of the report as JSON: MathML by formula id, so that a report needs no converter."""
    from theodolite.measures.latex import LATEX

    made = {name: mathml(latex) for name, latex in sorted(LATEX.items())}
    return json.dumps(made, indent=0, ensure_ascii=True) + "\n"
