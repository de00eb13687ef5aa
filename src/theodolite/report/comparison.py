"""What several surveys say together: findings on all of them, their headline figures, and what to mind."""

from __future__ import annotations

from theodolite.measures.formula import formulas
from theodolite.report.catalogue import anchor
from theodolite.report.compare import side_by_side
from theodolite.report.findings import Finding
from theodolite.report.findings.together import cautions, together
from theodolite.report.tables import Tables
from theodolite.report.text import escape


def comparison(surveys: list[Tables]) -> str:
    """Return cards, table and cautions as HTML; each card links to the chart of all surveys on one axis."""
    cards = "".join(_card(one) for one in together(surveys))
    listed = f'<ul class="cards">{cards}</ul>' if cards else ""
    noted = "".join(f"<li>{escape(text)}</li>" for text in cautions(surveys))
    minded = f'<ul class="warnings" aria-label="Cautions">{noted}</ul>' if noted else ""
    return f"{listed}{side_by_side(surveys)}{minded}"


def _card(one: Finding) -> str:
    links = f'<a href="#side-by-side" data-measure="{escape(one.column)}">Explore</a>' if one.column else ""
    if one.formula in formulas():
        links += f' <a href="{anchor(one.formula)}">Definition</a>'
    return (
        f'<li class="card"><strong class="figure">{escape(one.figure)}</strong><b>{escape(one.headline)}</b>'
        f'<p>{escape(one.text)}</p><p class="links">{links}</p></li>'
    )
