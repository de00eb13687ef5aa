"""Convert ```math fences to MathML when the site is built, so that the browser needs no script for them."""

from __future__ import annotations

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
