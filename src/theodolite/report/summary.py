"""What was surveyed: one or two sentences and a few counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from theodolite.report.tables import Steps, Tables, all_rows, number
from theodolite.report.vectors import is_vector_survey
from theodolite.studies.rare_units import describe_rare_units
from theodolite.studies.survey_data import describe_adapters
from theodolite.text import format_count, pluralize


def count_contents(tables: Tables) -> dict[str, float]:
    """Return the numbers of documents, positions, unit types, layers and coordinates that are known.

    For a survey of vectors: vectors, groups and coordinates.
    """
    corpus = _part(tables.facts, "corpus")
    counts = _part(tables.facts, "counts")
    rows = all_rows(tables)
    # n counts finite vectors only.
    seen = _most([{"n": number(row, "n") + (_first(row.get("nonfinite"), 0))} for row in rows], "n")
    positions = _first(seen, counts.get("positions"))
    types = _first(_most(rows, "types"), len(tables.units) or None)
    found = {
        "documents": _first(corpus.get("documents"), counts.get("documents")),
        "positions": positions,
        "unit types": types,
        "layers": float(len({number(row, "layer") for row in rows})),
    }
    if is_vector_survey(tables):
        found = {"vectors": positions, "groups": types}
    found["coordinates"] = _most(rows, "dim")
    return {name: value for name, value in found.items() if math.isfinite(value) and value > 0}


def render_tiles(known: Mapping[str, float]) -> str:
    """Return counts as HTML, each with its noun.

    >>> render_tiles({"layers": 1, "positions": 2000})
    '<dl class="tiles"><div><dt>layer</dt><dd>1</dd></div><div><dt>positions</dt><dd>2,000</dd></div></dl>'
    """
    counts = [pluralize(value, name.removesuffix("s")).split(" ", 1) for name, value in known.items()]
    tiles = "".join(f"<div><dt>{noun}</dt><dd>{value}</dd></div>" for value, noun in counts)
    return f'<dl class="tiles">{tiles}</dl>'


def describe_survey(tables: Tables) -> str:
    """Return what was surveyed, as far as it is known."""
    known = count_contents(tables)
    model, corpus = _part(tables.facts, "model"), _part(tables.facts, "corpus")
    if is_vector_survey(tables):
        what = pluralize(known["vectors"], "vector") if "vectors" in known else "the vectors"
        wide = f", with {pluralize(known['coordinates'], 'coordinate')} each" if "coordinates" in known else ""
        kinds = f" in {pluralize(known['groups'], 'group')}" if "groups" in known else ""
        return f"{what[0].upper()}{what[1:]} of {_named(corpus) or tables.name}{kinds}, measured as given{wide}."
    subject = _named(model) or tables.name
    first = f"{_form(model, subject)}{describe_adapters(tables.facts)} was run on {_corpus(corpus, known)}."
    covered = [pluralize(known[key], key.removesuffix("s")) for key in ("positions", "unit types") if key in known]
    if not covered and "layers" not in known:
        return first
    where = f" at each of {pluralize(known['layers'], 'layer')}" if known.get("layers", 0) > 1 else ""
    size = f", as vectors of {pluralize(known['coordinates'], 'coordinate')}" if "coordinates" in known else ""
    rare = describe_rare_units(tables.facts, tables.layers)
    return " ".join(
        filter(None, (first, f"The survey covers {' of '.join(covered) or 'every position'}{where}{size}.", rare))
    )


def describe_series(series: Steps) -> str:
    """Return which model was measured at which steps on which corpus."""
    model = _named(_part(series.facts, "model")) or series.name
    corpus = _named(_part(series.facts, "corpus"))
    steps = series.steps
    ends = f", from {format_count(steps[0])} to {format_count(steps[-1])}" if len(steps) > 1 else ""
    text = f" on the same text ({corpus})" if corpus else " on the same text"
    return f"{model} was measured at {pluralize(len(steps), 'step')} of its training{ends}, each time{text}."


def _form(model: Mapping[str, Any], subject: str) -> str:
    details = [str(model[key]) for key in ("architecture", "dtype", "device") if _plain(model.get(key))]
    return f"{subject} ({', '.join(details)})" if details else subject


def _corpus(corpus: Mapping[str, Any], known: Mapping[str, float]) -> str:
    documents = pluralize(known["documents"], "document") if "documents" in known else ""
    name = _named(corpus)
    return " of ".join(part for part in (documents, name) if part) or "an unnamed corpus"


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
