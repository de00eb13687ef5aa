"""One survey on the page: what it was, what it says, its profiles, its units, its table, its origin."""

from __future__ import annotations

from collections.abc import Callable

from theodolite.report.figures import legend, panels
from theodolite.report.findings import Finding, findings, warnings
from theodolite.report.layer_table import layer_table
from theodolite.report.numbers import count
from theodolite.report.profiles import groups
from theodolite.report.provenance import provenance
from theodolite.report.rows import populations, style_of
from theodolite.report.summary import figures, sentences
from theodolite.report.tables import Tables
from theodolite.report.text import escape
from theodolite.report.token_lists import token_lists

Part = Callable[[Tables, str, int], str]


def survey_section(tables: Tables, prefix: str, level: int) -> str:
    """Return everything about one survey; `prefix` keeps ids apart, its parts are headed at `level`."""
    parts = []
    for key, (title, part) in PARTS.items():
        inside = part(tables, prefix, level)
        if inside:
            head = f'<h{level} id="{prefix}-{key}">{title}</h{level}>'
            parts.append(f'<section class="part {key}" aria-labelledby="{prefix}-{key}">{head}{inside}</section>')
    return _opening(tables) + "".join(parts)


def contents(prefix: str) -> str:
    """Return links to the parts of one survey."""
    return "".join(f'<li><a href="#{prefix}-{key}">{title}</a></li>' for key, (title, _) in PARTS.items())


def _opening(tables: Tables) -> str:
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{count(value)}</dd></div>" for name, value in figures(tables).items()
    )
    return f'<p class="lead">{escape(sentences(tables))}</p><dl class="tiles">{tiles}</dl>'


def _findings(tables: Tables, prefix: str, level: int) -> str:
    cards = "".join(_card(one) for one in findings(tables))
    cautions = "".join(f"<li>{escape(text)}</li>" for text in warnings(tables))
    noted = f'<ul class="warnings" aria-label="Cautions">{cautions}</ul>' if cautions else ""
    none = "<li>No number is defined that a finding could be made from.</li>"
    return f'<ul class="cards">{cards or none}</ul>{noted}'


def _card(one: Finding) -> str:
    return (
        f'<li class="card"><strong class="figure">{escape(one.figure)}</strong>'
        f"<b>{escape(one.headline)}</b><p>{escape(one.text)}</p></li>"
    )


def _profiles(tables: Tables, prefix: str, level: int) -> str:
    known = populations(tables)
    if not known:
        return "<p>The survey has no layer table, so there is nothing to draw.</p>"
    key = legend([(style_of(name, known), name) for name in known])
    return "".join(
        f'<div class="group"><h{level + 1}>{title}</h{level + 1}><p class="quiet">{lead}</p>'
        f"{key}{panels(charts, prefix)}</div>"
        for title, lead, charts in groups(tables)
    )


def _units(tables: Tables, prefix: str, level: int) -> str:
    lead = (
        "For each unit, Q = M + V: M is the squared norm of its mean vector, V its variance around that mean. "
        "Large M lies far from the origin; large V means that context moves the unit about."
    )
    return f"<p>{lead}</p>{token_lists(tables, level + 1)}"


PARTS: dict[str, tuple[str, Part]] = {
    "findings": ("Findings", _findings),
    "profiles": ("Layer by layer", _profiles),
    "units": ("Units at the extremes", _units),
    "table": ("Every number", lambda tables, prefix, level: layer_table(tables)),
    "provenance": ("Where it comes from", lambda tables, prefix, level: provenance(tables.facts)),
}
