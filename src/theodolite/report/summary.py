"""What was surveyed, in a sentence or two and a few figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from theodolite.naming import several
from theodolite.report.rows import layer_rows, number, populations
from theodolite.report.tables import Tables
from theodolite.report.vectors import of_vectors


def figures(tables: Tables) -> dict[str, float]:
    """Return documents, positions, unit types, layers and coordinates, each where it is known.

    Of vectors alone: vectors, groups and coordinates.
    """
    corpus = _part(tables.facts, "corpus")
    counts = _part(tables.facts, "counts")
    rows = [row for name in populations(tables)[:1] for row in layer_rows(tables, name)]
    # n counts the vectors that are finite.
    seen = _most([{"n": number(row, "n") + (_first(row.get("nonfinite"), 0))} for row in rows], "n")
    positions = _first(seen, counts.get("positions"))
    types = _first(_most(rows, "types"), len(tables.units) or None)
    found = {
        "documents": _first(corpus.get("documents"), counts.get("documents")),
        "positions": positions,
        "unit types": types,
        "layers": float(len({number(row, "layer") for row in rows})),
    }
    if of_vectors(tables):
        found = {"vectors": positions, "groups": types}
    found["coordinates"] = _most(rows, "dim")
    return {name: value for name, value in found.items() if math.isfinite(value) and value > 0}


def tiles(known: Mapping[str, float]) -> str:
    """Return figures as HTML, each with its noun.

    >>> tiles({"layers": 1, "positions": 2000})
    '<dl class="tiles"><div><dt>layer</dt><dd>1</dd></div><div><dt>positions</dt><dd>2,000</dd></div></dl>'
    """
    told = [several(value, name.removesuffix("s")).split(" ", 1) for name, value in known.items()]
    each = "".join(f"<div><dt>{noun}</dt><dd>{value}</dd></div>" for value, noun in told)
    return f'<dl class="tiles">{each}</dl>'


def sentences(tables: Tables) -> str:
    """Say what was surveyed, leaving out what is not known."""
    known = figures(tables)
    model, corpus = _part(tables.facts, "model"), _part(tables.facts, "corpus")
    if of_vectors(tables):
        what = several(known["vectors"], "vector") if "vectors" in known else "the vectors"
        wide = f", of {several(known['coordinates'], 'coordinate')}" if "coordinates" in known else ""
        kinds = f" in {several(known['groups'], 'group')}" if "groups" in known else ""
        return f"{what[0].upper()}{what[1:]} of {_named(corpus) or tables.name}{kinds} measured as they are{wide}."
    subject = _named(model) or tables.name
    first = f"{_form(model, subject)} read {_corpus(corpus, known)}."
    saw = [several(known[key], key.removesuffix("s")) for key in ("positions", "unit types") if key in known]
    if not saw and "layers" not in known:
        return first
    where = f" at each of {several(known['layers'], 'layer')}" if known.get("layers", 0) > 1 else ""
    size = f", as vectors of {several(known['coordinates'], 'coordinate')}" if "coordinates" in known else ""
    return f"{first} The survey holds {' of '.join(saw) or 'every position'}{where}{size}."


def _form(model: Mapping[str, Any], subject: str) -> str:
    details = [str(model[key]) for key in ("architecture", "dtype", "device") if _plain(model.get(key))]
    return f"{subject} ({', '.join(details)})" if details else subject


def _corpus(corpus: Mapping[str, Any], known: Mapping[str, float]) -> str:
    documents = several(known["documents"], "document") if "documents" in known else ""
    name = _named(corpus)
    return " of ".join(part for part in (documents, name) if part) or "a corpus that is not named"


def _part(facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = facts.get(key)
    return value if isinstance(value, Mapping) else ({"name": value} if isinstance(value, str) else {})


def _named(part: Mapping[str, Any]) -> str:
    return str(part["name"]) if _plain(part.get("name")) else ""


def _plain(value: object) -> bool:
    return isinstance(value, str | int) and value != ""


def _most(rows: list[dict[str, Any]], column: str) -> float:
    values = [number(row, column) for row in rows]
    return max((value for value in values if math.isfinite(value)), default=math.nan)


def _first(*values: object) -> float:
    numbers = (float(value) for value in values if isinstance(value, int | float))
    return next((value for value in numbers if math.isfinite(value)), math.nan)
